"""Lowers final windows and final joins of rows in time to operators on changes."""

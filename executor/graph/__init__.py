"""Runs graphs of user operators as tasks of this process."""

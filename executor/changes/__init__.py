"""Runs plans on changes: continuous tasks, and loops."""

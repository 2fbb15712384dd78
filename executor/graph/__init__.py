"""Graphs of users' own operators as tasks of this process."""

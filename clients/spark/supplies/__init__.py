"""Supplies a task with a DataFrame's rows: by reference, staged, pushed."""

"""Graphs of users' own operators: checked, typed, and lowered into the pipelines that plans run as."""

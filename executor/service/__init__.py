"""Holds all tasks of a process, and makes tasks of plans and graphs, also those that run on Spark."""

"""Holds all tasks of a process, and turns plans, graphs and Spark sessions into tasks."""

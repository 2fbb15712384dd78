"""Runs pipelines: tasks, epochs, channels, results and their limits."""

"""Operators on windows of time."""

"""Answers calls: on the right thread, with the right error, within limits."""

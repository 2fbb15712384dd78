"""Explains what becomes of a plan, as text and as JSON."""

"""Explains what a plan becomes, as text and as JSON."""

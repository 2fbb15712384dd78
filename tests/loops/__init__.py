"""Loops in plans, against a naive oracle."""

"""Operators on changes made from a plan's nodes: continuous tasks, and loops."""

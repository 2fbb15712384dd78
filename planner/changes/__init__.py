"""Lowers a plan to operators on changes, for continuous tasks and for the bodies of loops.

`nodes` are the operators as values; `lower` makes them from a plan's relations, a module for each family.
"""

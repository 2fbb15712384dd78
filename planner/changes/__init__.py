"""Lowers a plan to operators on changes, for continuous tasks and for the bodies of loops.

`change_nodes` are the operators as values; `lower_changes` makes them from a plan's relations, with a module for each
family.
"""

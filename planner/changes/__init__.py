"""A plan as operators on changes: what a continuous task runs, and the body of a loop.

`nodes` are the operators as values; `lower` makes them from a plan's relations, a module for each family.
"""

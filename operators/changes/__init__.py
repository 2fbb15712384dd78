"""Operators on changes: rows with weights, indexed by the rounds of the loops they are in.

`columns`, `rows` and `change` are what moves, `arrangement` is what is kept, `operator` is the contract; the other
modules are an operator each.
"""

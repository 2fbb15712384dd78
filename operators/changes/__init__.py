"""Operators on changes: rows with weights, and with the rounds of the loops around them.

`columns`, `rows` and `change` are what moves, `arrangement` is what is kept, `operator` is the contract; the other
modules are an operator each.
"""

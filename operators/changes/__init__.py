"""Operators on changes: rows with weights, and with the rounds of the loops around them.

`values/` has the changes that move, `kept/` the arrangements that stay, and `change_operator` the contract. Each of the
other operator modules has one operator.
"""

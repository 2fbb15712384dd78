"""Spreads a plan over channels: decides which rows each channel reads, and where rows are exchanged.

Every relation can be had in several ways: whole in every channel, in shares, on one channel. `spread` finds the
cheapest way for the root, from the leaves up; `stages` takes the result apart at its exchanges. Choices depend on the
plan, the options and the sizes of the sources, and on nothing else.
"""

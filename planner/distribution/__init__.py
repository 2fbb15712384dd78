"""Spreads a plan over channels: decides which rows each channel reads, and where rows are exchanged.

Every relation has several alternatives: whole in every channel, in shares, on one channel. `distribute.spread` finds
the cheapest alternative for the root, from the leaves up; `distributed_stages.stages` takes the result apart at its
exchanges. Choices depend on the plan, the options and the sizes of the sources, and on nothing else.
"""

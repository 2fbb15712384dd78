"""Cuts sorted rows into ranges, one for each channel, in place of a merge on one channel.

The ranges have no key in common, and each channel merges the rows of its range as one channel would merge all of them.
So the rows of the channels, one channel after the other, are the merged rows.
"""

from __future__ import annotations

from dataclasses import replace

from .. import ir
from ..ir import tree
from ..ir.visit import subqueries_of
from .alternatives import row_cost


def ranged(root: ir.Relation, channels: int, least_saved: float) -> ir.Relation | None:
    """The root with ranges on so many channels; None unless it ends in a merge, and ranges save so many nanoseconds.

    Only relations that take rows one by one may stand above the merge.
    """
    above: list[ir.Relation] = []
    relation = root
    while not isinstance(relation, ir.Exchange):
        inputs = tree.inputs(relation)
        if relation.traits.distribution != "row by row" or len(inputs) != 1 or subqueries_of(relation):
            return None
        above.append(relation)
        [relation] = inputs
    if relation.routing is not ir.Routing.GATHER or not relation.order:
        return None
    if _saved(relation, channels) < least_saved:
        return None
    cut: ir.Relation = replace(relation, routing=ir.Routing.RANGE)
    for row_wise in reversed(above):
        cut = tree.with_inputs(row_wise, (cut,))
    return cut


def _saved(merge: ir.Exchange, channels: int) -> float:
    """Nanoseconds: one channel takes, merges and hands on all rows; each of several a part, which was sent twice."""
    return row_cost(len(merge.schema), merge.wide) * merge.rows * (3 - 4 / channels)

"""The alternatives of a read: all rows in every channel, shares of any rows, or shares by the ranges of a column."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from ...operators.core.column import KeyCut
from .. import ir
from .alternatives import BYTE, READ, Alternative, Placement, Ranged, Reading
from .estimates import Estimate
from .origins import Key
from .spreading import Spreading

_OPEN: Final = 3e6
"""Nanoseconds to plan a statement's read of a source, and to read the footers of the source's files."""

_CUT: Final = 1.1


def read_alternatives(
    relation: ir.Read | ir.LocalFiles, estimate: Estimate, spreading: Spreading
) -> Iterator[Alternative]:
    cost = estimate.rows * (READ * len(relation.names) + BYTE * estimate.wide)
    reading = Reading.ASKED if relation.order else Reading.ALL
    whole = replace(relation, whole=True)
    yield Alternative(placement=Placement.WHOLE, cost=_OPEN + cost, relation=whole, reading=reading)
    if not relation.order:
        yield Alternative(placement=Placement.SHARES, cost=_OPEN + cost / spreading.channels, relation=relation)
    clusters = _clusters(relation, spreading)
    for at, name in enumerate(relation.names):
        ranges = spreading.keys.get(Key(relation.source, name))
        if ranges is not None and name in clusters:
            yield Alternative(
                placement=Placement.SHARES,
                cost=_OPEN + cost / spreading.channels * _CUT,
                relation=replace(relation, cut=KeyCut(name, ranges)),
                ranged=Ranged(at, ranges),
                order=relation.order,
                in_turn=bool(relation.order),
                reading=reading,
            )
    for name, slices in () if relation.order else sorted(spreading.sliced.get(relation.source, ())):
        ranges = spreading.keys.get(Key(relation.source, name, slices))
        if ranges is not None and name in relation.names:
            yield Alternative(
                placement=Placement.SHARES,
                cost=_OPEN + cost / spreading.channels * _CUT,
                relation=replace(relation, cut=KeyCut(name, ranges, slices)),
                ranged=Ranged(relation.names.index(name), ranges, slices),
            )


def _clusters(relation: ir.Read | ir.LocalFiles, spreading: Spreading) -> Collection[str]:
    """The columns by which the relation may be cut. A declared order is checked from one row to the next over all rows,
    so channels with ranges of the first column can check it only if the pieces' ranges rise.
    """
    if not relation.order:
        return spreading.clustered.get(relation.source, ())
    first = relation.order[0]
    name = relation.names[first.column]
    rises = not first.direction.descending and name in spreading.rising.get(relation.source, ())
    return (name,) if rises else ()

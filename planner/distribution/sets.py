"""The alternatives of set operations, and of any relation over all rows of its inputs in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from .. import ir
from .alternatives import HASHED, Alternative, Alternatives, Movement, Placement, together


def set_alternatives(relation: ir.Set, below: Sequence[Alternatives], movement: Movement) -> Iterator[Alternative]:
    rows = fsum(alternatives.estimate.rows for alternatives in below)
    work = 0.0 if relation.operation is ir.SetOperation.UNION_ALL else HASHED
    yield from in_one_place(relation, below, work)
    share = work * rows / movement.channels
    if relation.operation is ir.SetOperation.UNION_ALL:
        dealt = [movement.dealt(alternatives) for alternatives in below]
        yield together(relation, Placement.SHARES, dealt, share)
    else:
        columns = tuple(range(len(relation.schema)))
        hashed = [movement.hashed(alternatives, columns) for alternatives in below]
        yield together(relation, Placement.SHARES, hashed, share, columns)


def in_one_place(relation: ir.Relation, below: Sequence[Alternatives], work: float) -> Iterator[Alternative]:
    """Any relation over all rows: in every channel, or in one. `work` is the nanoseconds for a row."""
    cost = work * fsum(alternatives.estimate.rows for alternatives in below)
    yield together(relation, Placement.WHOLE, [alternatives.whole for alternatives in below], cost)
    yield together(relation, Placement.ONE, [alternatives.one for alternatives in below], cost)

"""The alternatives of relations that make an order or take its first rows: sort, top-n and fetch.

Every channel sorts and cuts its own rows, then the sorted rows are merged; ties come in the channels' order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log2
from typing import Final

from .. import ir
from ..ir.relations import MOST_ROWS
from ..ir.visit import is_column
from .alternatives import Alternative, Alternatives, Movement, Placement

_COMPARE: Final = 10.0


def sort_alternatives(relation: ir.Sort, below: Alternatives, movement: Movement) -> Iterator[Alternative]:
    rows = below.estimate.rows
    for placement, alternative in ((Placement.WHOLE, below.whole), (Placement.ONE, below.one)):
        yield Alternative(
            placement=placement,
            cost=alternative.cost + _sorting(rows),
            relation=replace(relation, input=alternative.relation),
        )
    order = _columns(relation.keys)
    if order is not None:
        for alternative in below.shares:
            yield replace(
                alternative,
                cost=alternative.cost + _sorting(rows / movement.channels),
                relation=replace(relation, input=alternative.relation),
                order=order,
                in_turn=False,
            )


def top_n_alternatives(relation: ir.TopN, below: Alternatives, movement: Movement) -> Iterator[Alternative]:
    """The alternatives of a top-n. A row among the first rows is also among its channel's first rows."""
    rows = below.estimate.rows
    for placement, alternative in ((Placement.WHOLE, below.whole), (Placement.ONE, below.one)):
        cost = alternative.cost + _COMPARE * rows
        yield Alternative(placement=placement, cost=cost, relation=replace(relation, input=alternative.relation))
    count = _at_most(relation)
    if count is None or not below.shares:
        return
    alternative = min(below.shares, key=lambda alternative: alternative.cost)
    first = replace(relation, input=alternative.relation, offset=None, count=count)
    cost = alternative.cost + _COMPARE * rows / movement.channels
    few = Alternative(placement=Placement.SHARES, cost=cost, relation=first)
    gathered = movement.gathered(few, replace(below.estimate, rows=float(_value(count) * movement.channels)))
    yield replace(gathered, relation=replace(relation, input=gathered.relation))


def fetch_alternatives(relation: ir.Fetch, below: Alternatives, movement: Movement) -> Iterator[Alternative]:
    """The alternatives of a fetch. The rows of channel 0 come before those of channel 1, unless the relation has
    another order.
    """
    for placement, alternative in ((Placement.WHOLE, below.whole), (Placement.ONE, below.one)):
        yield replace(alternative, placement=placement, relation=replace(relation, input=alternative.relation))
    count = _at_most(relation)
    if count is None:
        return
    for alternative in below.shares:
        if not alternative.order and (alternative.hashed or alternative.ranged):
            continue  # the channels' rows, one after the other, are in no order of the plan's
        first = replace(alternative, relation=replace(relation, input=alternative.relation, offset=None, count=count))
        gathered = movement.gathered(first, replace(below.estimate, rows=float(_value(count) * movement.channels)))
        yield replace(gathered, relation=replace(relation, input=gathered.relation))


def _sorting(rows: float) -> float:
    return _COMPARE * rows * log2(max(rows, 2))


def _columns(keys: Sequence[ir.SortKey]) -> tuple[ir.ColumnOrder, ...] | None:
    """The order as one of columns; None if a key is computed, or is merely clustered."""
    orders = []
    for key in keys:
        column = key.expression
        if not is_column(column):
            return None
        if key.direction is ir.Direction.CLUSTERED:
            return None
        orders.append(ir.ColumnOrder(column=column.index, direction=key.direction))
    return tuple(orders)


def _at_most(relation: ir.TopN | ir.Fetch) -> ir.Literal | None:
    """The number of first rows that can matter; None if there is no limit, or the limit is computed."""
    offset, count = relation.offset, relation.count
    if not isinstance(count, ir.Literal) or not isinstance(count.value, int):
        return None
    if offset is None:
        return count
    if not isinstance(offset, ir.Literal) or not isinstance(offset.value, int):
        return None
    total = offset.value + count.value
    return replace(count, value=total) if total < MOST_ROWS else None


def _value(count: ir.Literal) -> int:
    return count.value if isinstance(count.value, int) else 0

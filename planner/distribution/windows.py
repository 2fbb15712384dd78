"""The alternatives of a window: on one channel, or in shares whose rows have a partition's rows together.

Windows of time are aggregated in two halves: rows by slice and keys where they are, then the slices of a group of keys
on the channel of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import ir
from ..choose.sliding_operators import slices_of
from ..ir.visit import is_column
from .alternatives import HASHED, Alternative, Alternatives, Movement, Placement
from .estimates import Estimate


def window_alternatives(relation: ir.Window, below: Alternatives, movement: Movement) -> Iterator[Alternative]:
    keys = _partition_columns(relation)
    alternatives = [below.whole, below.one]
    alternatives.extend(
        alternative for alternative in below.shares if alternative.hashed and set(alternative.hashed) <= set(keys)
    )
    alternatives.extend(
        alternative for alternative in below.shares if alternative.ranged and alternative.ranged.column in keys
    )
    if keys:
        alternatives.append(movement.hashed(below, keys))
    for alternative in alternatives:
        share = movement.channels if alternative.placement is Placement.SHARES else 1
        yield replace(
            alternative,
            cost=alternative.cost + HASHED * 2 * below.estimate.rows / share,
            relation=replace(relation, input=alternative.relation),
            order=(),
        )


def _partition_columns(relation: ir.Window) -> tuple[int, ...]:
    """The columns by which all calls partition."""
    common: list[int] | None = None
    for call in relation.calls:
        columns = [partition.index for partition in call.partitions if is_column(partition)]
        common = columns if common is None else [column for column in common if column in columns]
    return tuple(dict.fromkeys(common or ()))


def sliding_alternatives(
    relation: ir.SlidingAggregate, below: Alternatives, windows: Estimate, movement: Movement
) -> Iterator[Alternative]:
    for whole in (below.whole, below.one):
        cost = whole.cost + HASHED * (below.estimate.rows + windows.rows)
        yield replace(whole, cost=cost, relation=replace(relation, input=whole.relation), order=())
    if not below.shares:
        return
    keys = tuple(range(1, 1 + len(relation.keys)))
    share = min(below.shares, key=lambda alternative: alternative.cost)
    rows = min(below.estimate.rows, windows.rows * movement.channels)
    partial = Alternative(
        placement=Placement.SHARES,
        cost=share.cost + HASHED * below.estimate.rows / movement.channels,
        relation=slices_of(relation, share.relation),
    )
    slices = movement.closed(Estimate(rows, rows), [partial])
    yield _windows_of(relation, slices.whole, HASHED * rows)
    yield _windows_of(relation, slices.one, HASHED * rows)
    if keys:
        hashed = movement.hashed(slices, keys)
        yield replace(_windows_of(relation, hashed, HASHED * rows / movement.channels), hashed=keys)


def _windows_of(relation: ir.SlidingAggregate, slices: Alternative, cost: float) -> Alternative:
    final = ir.FinalSlidingAggregate(
        input=slices.relation,
        length=relation.length,
        step=relation.step,
        keys=len(relation.keys),
        measures=relation.measures,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )
    return Alternative(placement=slices.placement, cost=slices.cost + cost, relation=final)

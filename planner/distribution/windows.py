"""The alternatives of a window: on one channel, or in shares whose rows have a partition's rows together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import ir
from ..ir.visit import is_column
from .alternatives import HASHED, Alternative, Alternatives, Movement, Placement


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

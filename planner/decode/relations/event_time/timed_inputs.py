"""The two inputs of a join by time: their time columns, and the pairs of columns that are to be equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .... import ir
from ....functions.added_calls import call
from ....ir.building import int64
from ....ir.types import Type
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from ..joins.inputs_and_keys import keys_of, sides_of
from .time_columns import TimeColumn
from .time_spans import time_column
from .window_aggregate import with_time


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedInputs:
    """The inputs, without rows that have no time, and what stands over the columns of both."""

    left: ir.Relation
    right: ir.Relation
    keys: tuple[tuple[ir.Field, ir.Field], ...]
    marks: tuple[ir.Expression, ir.Expression]
    """The times of both rows, as numbers."""
    time: Type


def timed_inputs(
    decoder: Decoder, join: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[TimedInputs | None]:
    """The inputs of a join; None, once reported, if something is wrong with them."""
    sides = yield from sides_of(decoder, message, plan_path, outer)
    if sides is None:
        return None
    left, right = sides
    detail = plan_path / "detail"
    times = _times(decoder, join, left.schema, right.schema, detail)
    keys = keys_of(decoder, join.keys, left.schema, right.schema, detail / "keys")
    if times is None or keys is None:
        return None
    mine, theirs = times
    return TimedInputs(
        left=with_time(left, join.left_time, mine, plan_path),
        right=with_time(right, join.right_time, theirs, plan_path),
        keys=keys,
        marks=(_tick(mine), _tick(theirs)),
        time=mine.type,
    )


def _times(
    decoder: Decoder, join: Any, left: ir.Schema, right: ir.Schema, plan_path: PlanPath
) -> tuple[TimeColumn, TimeColumn] | None:
    """The time columns of both sides, over the columns of both."""
    first = time_column(decoder, left, join.left_time, plan_path / "left_time")
    second = time_column(decoder, right, join.right_time, plan_path / "right_time")
    if first is None or second is None:
        return None
    if first.type != second.type:
        problem = f"the times of both inputs must be of one type, not {first.type} and {second.type}: cast one of them"
        decoder.problems.add(plan_path / "right_time", "MIXED_TYPES", problem)
        return None
    behind_left = time_column(decoder, left + right, len(left) + join.right_time, plan_path / "right_time")
    return None if behind_left is None else (first, behind_left)


def _tick(time: TimeColumn) -> ir.Expression:
    return call("time_slice", time.value, int64(1), time.literal(0))

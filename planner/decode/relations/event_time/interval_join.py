"""Decodes `tidegate.v1.IntervalJoin`: the pairs of rows whose times are near each other."""

from __future__ import annotations

from typing import Any, Final

from .....operators.changes.event_time.interval_closing import IntervalClosing
from .... import ir
from ....functions.added_calls import call
from ....ir.arrow_types import ticks_of
from ....ir.building import int64
from ....ir.types import Type
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from ..joins.inputs_and_keys import keys_of, sides_of
from ..joins.join_schema import join_schema
from .time_columns import TimeColumn
from .time_spans import span_from, time_column, units
from .window_aggregate import with_time

_TYPES: Final = {
    1: ir.JoinType.INNER,
    2: ir.JoinType.LEFT,
    3: ir.JoinType.RIGHT,
    4: ir.JoinType.OUTER,
    5: ir.JoinType.LEFT_SEMI,
    6: ir.JoinType.LEFT_ANTI,
    7: ir.JoinType.RIGHT_SEMI,
    8: ir.JoinType.RIGHT_ANTI,
}


def convert_interval_join(
    decoder: Decoder, join: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    sides = yield from sides_of(decoder, message, plan_path, outer)
    detail = plan_path / "detail"
    type_ = _TYPES.get(join.type)
    if type_ is None:
        decoder.problems.add(detail / "type", "MISSING", "the join type is missing or unknown")
    if type_ is None or sides is None:
        return poison.RELATION
    left, right = sides
    times = times_of(decoder, join, left.schema, right.schema, detail)
    keys = keys_of(decoder, join.keys, left.schema, right.schema, detail / "keys")
    closing = None if times is None else _closing(decoder, join, times[0].type, detail)
    if times is None or keys is None or closing is None:
        return poison.RELATION
    return ir.IntervalJoin(
        left=with_time(left, join.left_time, times[0], plan_path),
        right=with_time(right, join.right_time, times[1], plan_path),
        keys=keys,
        marks=(tick_of(times[0]), tick_of(times[1])),
        type=type_,
        closing=closing,
        final=join.HasField("final"),
        schema=join_schema(left.schema, right.schema, type_),
        plan_path=str(plan_path),
    )


def times_of(
    decoder: Decoder, join: Any, left: ir.Schema, right: ir.Schema, plan_path: PlanPath
) -> tuple[TimeColumn, TimeColumn] | None:
    """The time columns of both sides, over the columns of both; None, once reported, if something is wrong."""
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


def tick_of(time: TimeColumn) -> ir.Expression:
    return call("time_slice", time.value, int64(1), time.literal(0))


def _closing(decoder: Decoder, join: Any, time: Type, plan_path: PlanPath) -> IntervalClosing | None:
    spans = {}
    for field in ("before", "after"):
        spans[field] = units(decoder, getattr(join, field), time, plan_path / field) if join.HasField(field) else 0
    lateness = span_from(decoder, join.final, "lateness", time, plan_path / "final")
    before, after = spans["before"], spans["after"]
    if before is None or after is None or lateness is None:
        return None
    if before + after < 0:
        problem = f"no time is at least {-before:,} units and at most {after:,} units after another one"
        decoder.problems.add(plan_path / "after", "WRONG_SPAN", problem)
        return None
    return IntervalClosing(before=before, after=after, lateness=lateness, ticks=ticks_of(time))

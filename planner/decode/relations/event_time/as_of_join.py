"""Decodes `tidegate.v1.AsOfJoin`: each row with the latest row of the other input that is not later."""

from __future__ import annotations

from typing import Any, Final

from .....operators.changes.event_time.interval_closing import IntervalClosing
from .... import ir
from ....ir.arrow_types import ticks_of
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from ..joins.inputs_and_keys import keys_of, sides_of
from ..joins.join_schema import join_schema
from .interval_join import tick_of, times_of
from .time_spans import span_from
from .window_aggregate import with_time

_TYPES: Final = {1: ir.JoinType.INNER, 2: ir.JoinType.LEFT}


def convert_as_of_join(
    decoder: Decoder, join: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    sides = yield from sides_of(decoder, message, plan_path, outer)
    detail = plan_path / "detail"
    type_ = _TYPES.get(join.type)
    if type_ is None:
        decoder.problems.add(detail / "type", "MISSING", "the join type is missing or unknown: give inner or left")
    if type_ is None or sides is None:
        return poison.RELATION
    left, right = sides
    times = times_of(decoder, join, left.schema, right.schema, detail)
    keys = keys_of(decoder, join.keys, left.schema, right.schema, detail / "keys")
    if times is None or keys is None:
        return poison.RELATION
    tolerance = span_from(decoder, join, "tolerance", times[0].type, detail)
    lateness = span_from(decoder, join.final, "lateness", times[0].type, detail / "final")
    if tolerance is None or lateness is None:
        return poison.RELATION
    return ir.AsOfJoin(
        left=with_time(left, join.left_time, times[0], plan_path),
        right=with_time(right, join.right_time, times[1], plan_path),
        keys=keys,
        marks=(tick_of(times[0]), tick_of(times[1])),
        type=type_,
        tolerance=tolerance if join.HasField("tolerance") else None,
        closing=IntervalClosing(before=0, after=0, lateness=lateness, ticks=ticks_of(times[0].type)),
        final=join.HasField("final"),
        schema=join_schema(left.schema, right.schema, type_),
        plan_path=str(plan_path),
    )

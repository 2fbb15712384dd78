"""Decodes `tidegate.v1.IntervalJoin`: the pairs of rows whose times are near each other."""

from __future__ import annotations

from typing import Any, Final

from .....operators.changes.event_time.interval_closing import IntervalClosing
from .... import ir
from ....ir.arrow_types import ticks_of
from ....ir.types import Type
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from ..joins.join_schema import join_schema
from .time_spans import span_from, units
from .timed_inputs import timed_inputs

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
    inputs = yield from timed_inputs(decoder, join, message, plan_path, outer)
    detail = plan_path / "detail"
    type_ = _TYPES.get(join.type)
    if type_ is None:
        decoder.problems.add(detail / "type", "MISSING", "the join type is missing or unknown")
    closing = None if inputs is None else _closing(decoder, join, inputs.time, detail)
    if type_ is None or inputs is None or closing is None:
        return poison.RELATION
    return ir.IntervalJoin(
        left=inputs.left,
        right=inputs.right,
        keys=inputs.keys,
        marks=inputs.marks,
        type=type_,
        closing=closing,
        final=join.HasField("final"),
        schema=join_schema(inputs.left.schema, inputs.right.schema, type_),
        plan_path=str(plan_path),
    )


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

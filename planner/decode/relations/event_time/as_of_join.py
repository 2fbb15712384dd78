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
from ..joins.join_schema import join_schema
from .time_spans import span_from
from .timed_inputs import timed_inputs

_TYPES: Final = {1: ir.JoinType.INNER, 2: ir.JoinType.LEFT}


def convert_as_of_join(
    decoder: Decoder, join: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    inputs = yield from timed_inputs(decoder, join, message, plan_path, outer)
    detail = plan_path / "detail"
    type_ = _TYPES.get(join.type)
    if type_ is None:
        decoder.problems.add(detail / "type", "MISSING", "the join type is missing or unknown: give inner or left")
    if type_ is None or inputs is None:
        return poison.RELATION
    tolerance = span_from(decoder, join, "tolerance", inputs.time, detail)
    lateness = span_from(decoder, join.final, "lateness", inputs.time, detail / "final")
    if tolerance is None or lateness is None:
        return poison.RELATION
    return ir.AsOfJoin(
        left=inputs.left,
        right=inputs.right,
        keys=inputs.keys,
        marks=inputs.marks,
        type=type_,
        tolerance=tolerance if join.HasField("tolerance") else None,
        closing=IntervalClosing(before=0, after=0, lateness=lateness, ticks=ticks_of(inputs.time)),
        final=join.HasField("final"),
        schema=join_schema(inputs.left.schema, inputs.right.schema, type_),
        plan_path=str(plan_path),
    )

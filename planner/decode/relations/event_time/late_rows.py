"""Decodes `tidegate.v1.LateRows`: the rows that come too late for final windows."""

from __future__ import annotations

from typing import Any

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from .calendars import ends_of
from .time_spans import closing_of, mark_of, span_from, timed_rows
from .window_aggregate import with_time


def convert_late_rows(
    decoder: Decoder, late: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    rows = yield from timed_rows(decoder, late, message, plan_path, outer)
    if rows is None:
        return poison.RELATION
    below, time = rows
    detail = plan_path / "detail"
    lateness = span_from(decoder, late, "lateness", time.type, detail)
    closing = None if lateness is None else closing_of(decoder, late, lateness, time, detail)
    if closing is None:
        return poison.RELATION
    return ir.LateRows(
        input=with_time(below, late.time, time, plan_path),
        mark=mark_of(time, closing),
        ends=ends_of(time, closing),
        closing=closing,
        schema=below.schema,
        plan_path=str(plan_path),
    )

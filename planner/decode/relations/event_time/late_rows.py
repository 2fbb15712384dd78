"""Decodes `tidegate.v1.LateRows`: the rows that come too late for final windows, or the other ones."""

from __future__ import annotations

from typing import Any

from .....operators.changes.event_time.interval_closing import IntervalClosing
from .....operators.changes.event_time.window_closing import AnyClosing
from .... import ir
from ....ir.arrow_types import ticks_of
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
    if lateness is None:
        return poison.RELATION
    closing: AnyClosing | IntervalClosing | None
    if any(map(late.HasField, ("size", "slide", "offset", "gap", "count"))) or late.zone:
        closing = closing_of(decoder, late, lateness, time, detail)
    else:
        closing = IntervalClosing(before=0, after=0, lateness=lateness, ticks=ticks_of(time.type))
    if closing is None:
        return poison.RELATION
    return ir.LateRows(
        input=with_time(below, late.time, time, plan_path),
        mark=mark_of(time, closing),
        ends=ends_of(time, closing),
        closing=closing,
        on_time=late.on_time,
        schema=below.schema,
        plan_path=str(plan_path),
    )

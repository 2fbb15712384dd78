"""The time columns of windows, and lengths of time in their units."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, Final

from .....operators.changes.event_time.interval_closing import IntervalClosing
from .....operators.changes.event_time.window_closing import (
    AnyClosing,
    CalendarClosing,
    CountClosing,
    SessionClosing,
    WindowClosing,
)
from .... import ir
from ....functions.added_calls import call
from ....ir import types as t
from ....ir.arrow_types import ticks_of
from ....ir.building import INT64, int64
from ....ir.types import Type
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import Scope, column, no_column
from .calendars import CALENDAR_UNITS, calendar_closing, calendar_slice
from .time_columns import TimeColumn

_FINEST: Final = 9
_MOST: Final = 2**62
"""The length of time, in units, from which sums of two lengths may overflow."""


def timed_rows(
    decoder: Decoder, detail: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[tuple[ir.Relation, TimeColumn] | None]:
    """The input of a message, and the time column of its detail; None, once reported, if something is wrong."""
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    if below is poison.RELATION:
        return None
    time = time_column(decoder, below.schema, detail.time, plan_path / "detail" / "time")
    return None if time is None else (below, time)


def time_column(decoder: Decoder, schema: ir.Schema, index: int, plan_path: PlanPath) -> TimeColumn | None:
    """The time column of a relation; None, once reported, if the column is not one."""
    type_ = column(schema, index)
    match type_:
        case t.Integer():
            field: ir.Expression = ir.Field(index=index, type=t.required(type_))
            if t.required(type_) != INT64:
                field = ir.Cast(operand=field, type=INT64)
            return TimeColumn(field, type_.nullable)
        case t.Date() | t.Timestamp() | t.TimestampTz():
            return TimeColumn(ir.Field(index=index, type=t.required(type_)), type_.nullable)
        case None:
            decoder.problems.add(plan_path, "OUT_OF_RANGE", no_column(schema, index))
        case _ if not is_unknown(type_):
            problem = f"column {index} is {type_}: a time column must be an integer, a date or a timestamp"
            decoder.problems.add(plan_path, "NOT_A_TIME", problem)
    return None


def units(decoder: Decoder, span: Any, time: Type, plan_path: PlanPath) -> int | None:
    """A span in units of the time column's type; None, once reported, if the span has no such form."""
    kind = span.WhichOneof("kind")
    match time:
        case t.Timestamp() | t.TimestampTz():
            wanted, unit = "nanoseconds", int(10 ** max(_FINEST - time.precision, 0))
        case _:
            wanted, unit = "units", 1
    if kind != wanted:
        problem = f"for a time column of type {time} a span must be in {wanted}, not in {kind or 'nothing'}"
        decoder.problems.add(plan_path, "WRONG_SPAN", problem)
        return None
    count, rest = divmod(int(getattr(span, wanted)), unit)
    if rest or abs(count) >= _MOST:
        why = f"a whole number of the units of {time}, {unit:,} nanoseconds" if rest else f"below {_MOST:,} units"
        decoder.problems.add(plan_path, "WRONG_SPAN", f"the span must be {why}, not {getattr(span, wanted):,}")
        return None
    return count


def length(decoder: Decoder, span: Any, time: Type, plan_path: PlanPath) -> int | None:
    """A span that must be above 0, as `units` gives it."""
    count = units(decoder, span, time, plan_path)
    if count is not None and count < 1:
        decoder.problems.add(plan_path, "WRONG_SPAN", f"the span must be above 0, not {count:,} units")
        return None
    return count


def span_from(decoder: Decoder, message: Any, field: str, time: Type, plan_path: PlanPath) -> int | None:
    """A span from 0 on, 0 where the message has none; None, once reported, if it is no such span."""
    if not message.HasField(field):
        return 0
    count = units(decoder, getattr(message, field), time, plan_path / field)
    if count is not None and count < 0:
        decoder.problems.add(plan_path / field, "WRONG_SPAN", f"the span must not be below 0, as {count:,} units are")
        return None
    return count


def closing_of(
    decoder: Decoder, message: Any, lateness: int, time: TimeColumn, plan_path: PlanPath
) -> AnyClosing | None:
    """The windows of a message with a size, a slide and an offset, with a gap, or with a number of rows; None, once
    reported, if these are no windows.
    """
    if message.zone and message.size.WhichOneof("kind") not in CALENDAR_UNITS:
        problem = "only windows of months or days begin in a time zone: leave the zone out"
        decoder.problems.add(plan_path / "zone", "WRONG_SPAN", problem)
        return None
    if message.HasField("count"):
        return _counted(decoder, message, lateness, time, plan_path)
    if message.HasField("gap"):
        if _has_others(decoder, message, ("size", "slide", "offset"), "sessions have a gap alone", plan_path):
            return None
        gap = length(decoder, message.gap, time.type, plan_path / "gap")
        return None if gap is None else SessionClosing(gap=gap, lateness=lateness, ticks=ticks_of(time.type))
    if message.size.WhichOneof("kind") in CALENDAR_UNITS:
        return calendar_closing(decoder, message, lateness, time.type, plan_path)
    if not message.HasField("size"):
        problem = "windows must have a size, a gap, or a number of rows"
        decoder.problems.add(plan_path / "size", "MISSING", problem)
        return None
    size = slide = length(decoder, message.size, time.type, plan_path / "size")
    if message.HasField("slide"):
        slide = length(decoder, message.slide, time.type, plan_path / "slide")
    offset: int | None = 0
    if message.HasField("offset"):
        offset = units(decoder, message.offset, time.type, plan_path / "offset")
    if size is None or slide is None or offset is None:
        return None
    shared = gcd(size, slide)
    return WindowClosing(
        size=size,
        slide=slide,
        offset=offset % slide,
        length=size // shared,
        step=slide // shared,
        lateness=lateness,
        ticks=ticks_of(time.type),
    )


def _counted(
    decoder: Decoder, message: Any, lateness: int, time: TimeColumn, plan_path: PlanPath
) -> CountClosing | None:
    others = ("size", "slide", "offset", "gap")
    if _has_others(decoder, message, others, "windows of a number of rows have no length of time", plan_path):
        return None
    count = message.count
    for field in ("size", "slide"):
        rows = getattr(count, field)
        if rows >= _MOST or (field == "size" and not rows):
            problem = f"the number of rows must be from 1 to {_MOST - 1:,}, not {rows:,}"
            decoder.problems.add(plan_path / "count" / field, "WRONG_SPAN", problem)
            return None
    return CountClosing(size=count.size, slide=count.slide or count.size, lateness=lateness, ticks=ticks_of(time.type))


def _has_others(decoder: Decoder, message: Any, fields: Sequence[str], why: str, plan_path: PlanPath) -> bool:
    """Reports the first of these fields that the message has."""
    for field in fields:
        if message.HasField(field):
            decoder.problems.add(plan_path / field, "WRONG_SPAN", f"{why}: leave the {field} out")
            return True
    return False


def mark_of(time: TimeColumn, closing: AnyClosing | IntervalClosing) -> ir.Expression:
    """The number of a row's slice, or its tick."""
    if isinstance(closing, CalendarClosing):
        return calendar_slice(time.value, closing)
    size, origin = 1, 0
    if isinstance(closing, WindowClosing):
        size, origin = closing.slide // closing.step, closing.offset
    return call("time_slice", time.value, int64(size), time.literal(origin))

"""Windows of months and days of a calendar, in a time zone."""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from .....operators.changes.event_time.interval_closing import IntervalClosing
from .....operators.changes.event_time.window_closing import AnyClosing, CalendarClosing
from .....operators.duckdb.sql_text import is_time_zone
from .... import ir
from ....functions.added_calls import call
from ....ir import types as t
from ....ir.arrow_types import ticks_of
from ....ir.building import int64
from ....ir.types import Type
from ...decoder import Decoder
from ...plan_path import PlanPath
from .time_columns import TimeColumn

CALENDAR_UNITS: Final = ("months", "days")

_TEXT: Final = t.String(nullable=False)
_MOST: Final = 2**31
_DAY: Final = 86_400_000_000
_DAYS_OF: Final = {"months": 31, "days": 1}


def calendar_closing(
    decoder: Decoder, message: Any, lateness: int, time: Type, plan_path: PlanPath
) -> CalendarClosing | None:
    """The windows of a message whose size is in months or days; None, once reported, if these are no windows."""
    if not isinstance(time, t.Date | t.Timestamp | t.TimestampTz):
        problem = f"a column of type {time} has no calendar: months and days are for dates and timestamps"
        decoder.problems.add(plan_path / "size", "WRONG_SPAN", problem)
        return None
    unit = message.size.WhichOneof("kind")
    spans: dict[str, int | None] = {"size": 0, "slide": 0, "offset": 0}
    for field in spans:
        if message.HasField(field):
            spans[field] = _units(decoder, getattr(message, field), unit, plan_path / field, any_sign=field == "offset")
    size, slide, offset = spans.values()
    if size is None or slide is None or offset is None or not _has_zone(decoder, message.zone, time, plan_path):
        return None
    slide = slide or size
    shared = gcd(size, slide)
    ticks = ticks_of(time)
    return CalendarClosing(
        size=size,
        slide=slide,
        offset=offset % slide,
        unit=unit,
        zone=message.zone,
        length=size // shared,
        step=slide // shared,
        most=(size * _DAYS_OF[unit] + 1) * _DAY * ticks.parts // ticks.micros,
        lateness=lateness,
        ticks=ticks,
    )


def calendar_slice(moment: ir.Expression, closing: CalendarClosing) -> ir.Expression:
    """The number of the slice that has a moment."""
    size = closing.slide // closing.step
    return call("calendar_slice", moment, *_slices(size, closing.offset, closing))


def calendar_start(number: ir.Expression, closing: CalendarClosing, time: TimeColumn, after: int) -> ir.Expression:
    """The moment so many units after the start of the window of this number."""
    slices = _slices(closing.slide, closing.offset + after, closing)
    return call("calendar_start", number, *slices, time.literal(0))


def ends_of(time: TimeColumn, closing: AnyClosing | IntervalClosing) -> ir.Expression | None:
    """The tick at which the earliest window of a row ends, for windows of a calendar."""
    if not isinstance(closing, CalendarClosing):
        return None
    # A window ends with slice n * step + length; the earliest one that has a slice is the first that ends behind it.
    step, length = (int64(value) for value in (closing.step, closing.length))
    before = call("time_slice", calendar_slice(time.value, closing), step, length)
    end = calendar_start(before, closing, time, closing.slide + closing.size)
    return call("time_slice", end, int64(1), time.literal(0))


def _slices(size: int, origin: int, closing: CalendarClosing) -> tuple[ir.Literal, ...]:
    numbers = (int64(value) for value in (size, origin))
    return (*numbers, *(ir.Literal(value=text, type=_TEXT) for text in (closing.unit, closing.zone)))


def _units(decoder: Decoder, span: Any, unit: str, plan_path: PlanPath, *, any_sign: bool) -> int | None:
    kind = span.WhichOneof("kind")
    if kind != unit:
        problem = f"the windows' size is in {unit}, so this span must be, too, not in {kind or 'nothing'}"
        decoder.problems.add(plan_path, "WRONG_SPAN", problem)
        return None
    count = int(getattr(span, unit))
    if abs(count) >= _MOST or (count < 1 and not any_sign):
        least = f"-{_MOST - 1:,}" if any_sign else "1"
        decoder.problems.add(
            plan_path, "WRONG_SPAN", f"the span must be {least} to {_MOST - 1:,} {unit}, not {count:,}"
        )
        return None
    return count


def _has_zone(decoder: Decoder, zone: str, time: Type, plan_path: PlanPath) -> bool:
    """Tests whether the time zone is one that the windows can have. Reports it otherwise."""
    if not zone:
        return True
    if not isinstance(time, t.TimestampTz):
        problem = f"a column of type {time} shows what clocks show, in no zone: leave the zone out"
        decoder.problems.add(plan_path / "zone", "WRONG_SPAN", problem)
        return False
    if not is_time_zone(zone):
        problem = f"{zone!r} is no time zone: give its IANA name, as 'Europe/Berlin'"
        decoder.problems.add(plan_path / "zone", "UNKNOWN_TIME_ZONE", problem)
        return False
    return True

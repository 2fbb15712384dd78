"""Slices of a calendar: the months or days that a moment is in, and the moment at which they begin.

*Units* are months since January 1970, or days since 1970-01-01. A unit begins at midnight as clocks in its zone show
it. If they skip midnight, it begins when they are set; if they show midnight twice, at the second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .....operators.core import quoting
from ....ir import types as t
from ....ir.arrow_types import digits
from ..named_values import let
from ..use import Entry, Table, Use, error
from .event_time_additions import range_of, ticks_sql

_DAY_0: Final = "DATE '1970-01-01'"
_MICROS: Final = 6
_UTC: Final = frozenset({"", "utc", "etc/utc"})
_DAYS_OF_400_YEARS: Final = 146_097
_MOST_DAYS: Final = 2**31 - 400
_SPARE: Final = 400
"""Days that are left free at the ends of a type's range: no midnight of a zone is beyond it."""


@dataclass(frozen=True, slots=True)
class _Calendar:
    """Slices of `size` units from unit `origin` on."""

    size: int
    origin: int
    months: bool
    zone: str | None
    """The zone of moments that have one, as SQL; None for UTC and for all others."""

    @classmethod
    def of(cls, use: Use, moment: t.Type) -> _Calendar:
        size, origin, unit, zone = map(use.constant, range(1, 5))
        if not isinstance(size, int) or not isinstance(origin, int) or size < 1:
            use.refuse("size and origin must be constants, the size above 0")
        if unit not in ("months", "days") or not isinstance(zone, str):
            use.refuse("unit must be 'months' or 'days', and zone a constant")
        zoned = isinstance(moment, t.TimestampTz) and zone.lower() not in _UTC
        return cls(size, origin, unit == "months", quoting.text(zone) if zoned else None)

    def unit(self, date: str) -> str:
        """The unit of a date."""
        if self.months:
            return let(date, lambda d: f"((date_part('year', {d}) - 1970) * 12 + date_part('month', {d}) - 1)")
        return f"CAST({date} - {_DAY_0} AS BIGINT)"

    def midnight(self, unit: str) -> str:
        """The wall clock's time at which a unit begins."""
        if not self.months:
            return f"CAST({_DAY_0} + CAST({unit} AS INTEGER) AS TIMESTAMP)"

        def first_day(months: str) -> str:
            years, month = _floored(months, 12), f"({months} - {_floored(months, 12)} * 12)"
            return f"CAST(make_date(1970 + {years}, {month} + 1, 1) AS TIMESTAMP)"

        return let(unit, first_day)

    def start(self, unit: str) -> str:
        """The moment at which a unit begins."""
        return f"({self.midnight(unit)} AT TIME ZONE {self.zone})"


def _floored(number: str, size: int) -> str:
    if size == 1:
        return number
    return f"({number} // {size} - CAST({number} % {size} < 0 AS BIGINT))"


def _micros(x: str, type_: t.Timestamp | t.TimestampTz) -> str:
    """A moment in microseconds since 1970, rounded down."""
    ticks = ticks_sql(x, type_)
    finer = digits(type_) - _MICROS
    return let(ticks, lambda ns: _floored(ns, 10**finer)) if finer > 0 else f"({ticks} * {10**-finer})"


def _calendar_slice(use: Use) -> str:
    type_ = use.type(0)
    calendar = _Calendar.of(use, type_)

    def unit(x: str) -> str:
        if not isinstance(type_, t.Timestamp | t.TimestampTz):
            return calendar.unit(x)
        if calendar.zone is None:
            return calendar.unit(f"CAST(make_timestamp({_micros(x, type_)}) AS DATE)")
        return let(f"make_timestamptz({_micros(x, type_)})", zoned)

    def zoned(instant: str) -> str:
        local = calendar.unit(f"CAST(({instant} AT TIME ZONE {calendar.zone}) AS DATE)")
        # Where clocks are set back over midnight, the unit has not begun yet.
        return let(local, lambda unit: f"({unit} - CAST({instant} < {calendar.start(unit)} AS BIGINT))")

    number = let(use.arguments[0], unit)
    return let(f"({number} - {calendar.origin})", lambda since: _floored(since, calendar.size))


def _calendar_start(use: Use) -> str:
    type_ = use.type(5)
    calendar = _Calendar.of(use, type_)
    if use.constant(5) is None:
        use.refuse("like must be a constant of the result's type")
    most = _most_units(type_, months=calendar.months)
    beyond = error(f"a window of time begins or ends beyond what {type_} can hold")

    def moment(unit: str) -> str:
        start = calendar.midnight(unit) if calendar.zone is None else calendar.start(unit)
        if isinstance(type_, t.TimestampTz) and calendar.zone is None:
            start = f"({start} AT TIME ZONE 'UTC')"
        within = f"{unit} IS NULL OR {unit} BETWEEN {-most} AND {most}"
        return f"CASE WHEN {within} THEN {start} ELSE {beyond} END"

    return use.cast(let(f"({use.arguments[0]} * {calendar.size} + {calendar.origin})", moment))


def _most_units(type_: t.Type, *, months: bool) -> int:
    """The most units from 1970 that a moment of the type can have in either direction."""
    days = _MOST_DAYS
    if isinstance(type_, t.Timestamp | t.TimestampTz):
        micros = t.Timestamp(precision=_MICROS)
        days = min(days, *(range_of(kind)[1] // (86_400 * 10 ** digits(kind)) for kind in (type_, micros)))
    days -= _SPARE
    return days * 4_800 // _DAYS_OF_400_YEARS if months else days


_NOTE: Final = "all arguments but the first must be constants"

TABLE: Final[Table] = {
    ("event_time", "calendar_slice"): Entry(_calendar_slice, note=_NOTE),
    ("event_time", "calendar_start"): Entry(_calendar_start, note=_NOTE),
}

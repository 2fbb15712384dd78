"""Rounding of moments to multiples of a unit, from a given origin or from the last beginning of a calendar unit.

A *multiple* is the origin plus a whole number of steps. Steps of months end on the origin's day, or on the month's last
day where the month is shorter. With a zone, all of it is the wall clock's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...ir import types as t
from .datetimes import local
from .named_values import let, let_all
from .use import Entry, Table, Use, error, nulls_first

_DAY: Final = 86_400_000_000
_MICROS: Final = 6
_FIXED: Final = {
    "WEEK": 7 * _DAY,
    "DAY": _DAY,
    "HOUR": _DAY // 24,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_MONTHS: Final = {"YEAR": 12, "MONTH": 1}
_FIRST_DAY: Final = "TIMESTAMP '1970-01-01'"
_BEGINNINGS: Final = {
    **{unit: f"date_trunc('{unit.lower()}', {{x}})" for unit in (*_MONTHS, "DAY", *tuple(_FIXED)[2:])},
    **dict.fromkeys(("MONDAY_WEEK", "ISO_WEEK"), "date_trunc('week', {x})"),
    **dict.fromkeys(("SUNDAY_WEEK", "US_WEEK"), "(date_trunc('week', {x} + INTERVAL 1 DAY) - INTERVAL 1 DAY)"),
}
"""The last beginning of each unit of the calendar."""


def _floored(dividend: str, divisor: str) -> str:
    return let(dividend, lambda d: f"({d} // {divisor} - CAST({d} % {divisor} < 0 AS BIGINT))")


def _neighbours(x: str, origin: str, unit: str, multiple: str, chosen: Callable[[str, str], str]) -> str:
    """What is chosen of the last multiple that is not after `x`, and the next one. All are SQL timestamps."""
    if unit in _FIXED:
        size = f"({multiple} * {_FIXED[unit]})"
        steps = _floored(f"(epoch_us({x}) - epoch_us({origin}))", size)

        def at(step: str) -> str:
            return f"make_timestamp(epoch_us({origin}) + {step} * {size})"

        return let(steps, lambda n: let_all((at(n), at(f"({n} + 1)")), lambda both: chosen(*both)))
    size = f"({multiple} * {_MONTHS[unit]})"
    months = " + ".join(
        f"(date_part('{part}', {x}) - date_part('{part}', {origin})) * {count}"
        for part, count in (("year", 12), ("month", 1))
    )

    def after(step: str) -> str:
        return f"({origin} + to_months(CAST({step} * {size} AS INTEGER)))"

    def corrected(n: str) -> str:
        """The multiple in the month of `x` may be after `x`."""
        exact = f"({n} - CAST({after(n)} > {x} AS BIGINT))"
        return let(exact, lambda step: let_all((after(step), after(f"({step} + 1)")), lambda both: chosen(*both)))

    return let(_floored(f"({months})", size), corrected)


def _rounded(use: Use, x: str, origin: str, unit: str, multiple: str) -> str:
    """`x`, or one of the multiples around it, as the second argument says."""

    def chosen(low: str, high: str) -> str:
        match use.arguments[1]:
            case "FLOOR":
                return low
            case "CEIL":
                return f"CASE WHEN {x} = {low} THEN {low} ELSE {high} END"
            case ties:
                sign = "<=" if ties == "ROUND_TIE_DOWN" else "<"
                earlier = f"epoch_us({x}) - epoch_us({low}) {sign} epoch_us({high}) - epoch_us({x})"
                return f"CASE WHEN {earlier} THEN {low} ELSE {high} END"

    below = error(f"{use.name} to a multiple below 1")
    return f"CASE WHEN {multiple} < 1 THEN {below} ELSE {_neighbours(x, origin, unit, multiple, chosen)} END"


def _as_timestamp(use: Use, index: int, zone: str | None) -> str:
    """A moment as DuckDB's timestamp, that of a time on the first day of 1970."""
    x, type_ = use.arguments[index], use.type(index)
    if isinstance(type_, t.Time | t.Timestamp | t.TimestampTz) and type_.precision > _MICROS:
        use.refuse(f"DuckDB would cut {type_} to microseconds here (precision up to {_MICROS})")
    match type_:
        case t.Time():
            return f"make_timestamp(epoch_us({x}))"
        case t.TimestampTz() if zone is not None:
            return local(use, x, index, zone)
        case _:
            return f"CAST({x} AS TIMESTAMP)"


def _in_zone(use: Use, index: int | None, rounded: Callable[[str | None], str]) -> str:
    """The rounded moment as the function's result. The argument `index` names the zone whose clock counts."""

    def result(zone: str) -> str:
        return f"({rounded(zone)} AT TIME ZONE {zone})"

    if index is not None:
        return use.cast(let(use.arguments[index], result))
    if not isinstance(use.result, t.Time):
        return use.cast(rounded(None))
    beyond = error(f"{use.name} gives a time beyond the day")
    outside = f"{{r}} < {_FIRST_DAY} OR {{r}} >= {_FIRST_DAY} + INTERVAL 1 DAY"
    return use.cast(let(rounded(None), lambda r: f"CASE WHEN {outside.format(r=r)} THEN {beyond} ELSE {r} END"))


def _round_temporal(use: Use) -> str:
    unit, multiple, origin = use.arguments[2], use.arguments[3], len(use.arguments) - 1

    def rounded(zone: str | None) -> str:
        moments = (_as_timestamp(use, 0, zone), _as_timestamp(use, origin, zone), multiple)
        return let_all(moments, lambda names: _rounded(use, names[0], names[1], unit, names[2]))

    return _in_zone(use, 4 if origin == 5 else None, rounded)


def _round_calendar(use: Use) -> str:
    unit, calendar, multiple = use.arguments[2:5]

    def from_last(x: str, count: str) -> str:
        return let(_BEGINNINGS[calendar].format(x=x), lambda origin: _rounded(use, x, origin, unit, count))

    def rounded(zone: str | None) -> str:
        return let_all((_as_timestamp(use, 0, zone), multiple), lambda names: from_last(names[0], names[1]))

    return _in_zone(use, 5 if len(use.arguments) == 6 else None, rounded)


TABLE: Final[Table] = {
    ("datetime", "round_temporal"): Entry(nulls_first(_round_temporal)),
    ("datetime", "round_calendar"): Entry(
        nulls_first(_round_calendar),
        note="multiples count from the beginning of a unit of the calendar; rounding up may lead into the next unit",
    ),
}

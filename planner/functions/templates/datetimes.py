"""Dates, times, timestamps and intervals. Instants are taken apart in the zone that the call names."""

from __future__ import annotations

from typing import Final

from ...ir import types as t
from .comparison import comparisons
from .named_values import let
from .use import Entry, Table, Template, Use, nulls_first, readable_moment

_FIELDS: Final[dict[str, str]] = {
    "YEAR": "date_part('year', {x})",
    "ISO_YEAR": "date_part('isoyear', {x})",
    "US_YEAR": "date_part('year', {wednesday})",
    "QUARTER": "date_part('quarter', {x})",
    "MONTH": "date_part('month', {x})",
    "DAY": "date_part('day', {x})",
    "DAY_OF_YEAR": "date_part('doy', {x})",
    "MONDAY_DAY_OF_WEEK": "date_part('isodow', {x})",
    "SUNDAY_DAY_OF_WEEK": "(date_part('dow', {x}) + 1)",
    "ISO_WEEK": "date_part('week', {x})",
    "US_WEEK": "((date_part('doy', {wednesday}) - 1) // 7 + 1)",
    "HOUR": "date_part('hour', {x})",
    "MINUTE": "date_part('minute', {x})",
    "SECOND": "date_part('second', {x})",
    "MILLISECOND": "date_part('millisecond', {x})",
    "MICROSECOND": "date_part('microsecond', {x})",
    "NANOSECOND": "(epoch_ns({x}) % 1000 + 1000) % 1000",
    "PICOSECOND": "CASE WHEN {x} IS NOT NULL THEN CAST(0 AS BIGINT) END",
    "SUBSECOND": "(date_part('microsecond', {x}) % 1000000)",
    "UNIX_TIME": "CAST(floor(date_part('epoch', {x})) AS BIGINT)",
}
_MICROS: Final = 6
_WEDNESDAY: Final = "(CAST({x} AS DATE) + 3 - CAST(date_part('dow', {x}) AS INTEGER))"
"""The middle of a week that starts on Sunday: it lies in the year that has most of the week."""


def local(use: Use, x: str, index: int, zone: str) -> str:
    """The instant `x` as a wall clock in `zone` shows it."""
    _only_microseconds(use, index)
    return f"({x} AT TIME ZONE {zone})"


def _local_part(use: Use, x: str, index: int, zone: str) -> str:
    """The same of an instant of whose places behind the microseconds nothing is asked."""
    type_ = use.type(index)
    if not isinstance(type_, t.TimestampTz) or type_.precision <= _MICROS:
        return local(use, x, index, zone)
    return let(
        f"epoch_ns({x})",
        lambda n: f"(make_timestamptz(({n} - ({n} % 1000 + 1000) % 1000) // 1000) AT TIME ZONE {zone})",
    )


def _only_microseconds(use: Use, index: int) -> None:
    type_ = use.type(index)
    if isinstance(type_, t.Timestamp | t.TimestampTz) and type_.precision > _MICROS:
        use.refuse(f"DuckDB would cut {type_} to microseconds here (precision up to {_MICROS})")


def _extract(use: Use) -> str:
    unit, *rest = use.arguments
    indexed = use.types[1] is None
    if indexed:
        indexing, *rest = rest
    at = 2 if indexed else 1
    x, zone = rest[0], rest[1] if len(rest) > 1 else None
    if unit == "TIMEZONE_OFFSET" and zone is not None:
        return let(x, lambda v: f"((epoch_us({local(use, v, at, zone)}) - epoch_us({v})) // 1000000)")
    if unit not in _FIELDS:
        use.refuse(f"{unit} is not supported")
    if zone is not None and unit not in ("UNIX_TIME", "NANOSECOND"):
        x = _local_part(use, x, at, zone)
    field = let(x, lambda v: _FIELDS[unit].format(x=v, wednesday=_WEDNESDAY.format(x=v)))
    return f"({field} - 1)" if indexed and indexing == "ZERO" else field


def _extract_boolean(use: Use) -> str:
    component, x, *zone = use.arguments
    if component != "IS_LEAP_YEAR":
        use.refuse(f"{component} is not supported")
    if zone:
        x = local(use, x, 1, zone[0])
    leap = "CASE WHEN {y} % 100 = 0 THEN {y} % 400 = 0 ELSE {y} % 4 = 0 END"
    return let(f"date_part('year', {x})", lambda y: leap.format(y=y))


def _shift(sign: str) -> Template:
    """A moment plus or minus an interval. With a zone, months are added to the wall clock's time."""

    def in_zone(use: Use) -> str:
        x, interval, zone = use.arguments
        return use.cast(let(zone, lambda z: f"(({local(use, x, 0, z)} {sign} {interval}) AT TIME ZONE {z})"))

    def template(use: Use) -> str:
        x, interval, *zone = use.arguments
        _only_microseconds(use, 0)
        return nulls_first(in_zone)(use) if zone else use.cast(f"({x} {sign} {interval})")

    return template


def _add_intervals(use: Use) -> str:
    return f"({use.arguments[0]} + {use.arguments[1]})"


def _multiply(use: Use) -> str:
    return f"({use.arguments[1]} * CAST({use.arguments[0]} AS BIGINT))"


def _assume_timezone(use: Use) -> str:
    _only_microseconds(use, 0)
    return use.cast(f"(CAST({use.arguments[0]} AS TIMESTAMP) AT TIME ZONE {use.arguments[1]})")


def _local_timestamp(use: Use) -> str:
    return use.cast(local(use, use.arguments[0], 0, use.arguments[1]))


def _parse(use: Use) -> str:
    use.constant_format()
    return use.cast(f"strptime({readable_moment(use.arguments[0])}, {use.arguments[1]})")


def _parse_timestamp(use: Use) -> str:
    """A timestamp from text. A zone in the text wins, then the given zone; without either the text is in UTC."""
    text, format_, *rest = use.arguments
    known = use.constant_format()
    parsed = f"strptime({readable_moment(text)}, {format_})"
    if "%z" in known or "%Z" in known:
        return use.cast(parsed)
    zone = rest[0] if len(rest) == 2 else "'UTC'"
    return use.cast(f"({parsed} AT TIME ZONE {zone})")


def _format(use: Use) -> str:
    x, format_, *zone = use.arguments
    if "%n" in use.constant_format().replace("%%", ""):
        use.refuse("the directive %n is not supported: DuckDB leaves places behind it unwritten; %f are microseconds")
    match use.type(0):
        case t.Time():
            x = f"(DATE '1970-01-01' + {x})"
        case t.TimestampTz():
            x = local(use, x, 0, zone[0])
        case _:
            pass
    return f"strftime({x}, {format_})"


TABLE: Final[Table] = {
    ("datetime", "extract"): Entry(
        _extract,
        note="milliseconds and microseconds count from the minute, as in the official cases; MONDAY_WEEK and"
        " SUNDAY_WEEK are refused: the extension's text gives no number to the days before the year's first week",
    ),
    ("datetime", "extract_boolean"): Entry(_extract_boolean, note="IS_DST is refused"),
    ("datetime", "add"): Entry(_shift("+")),
    ("datetime", "subtract"): Entry(_shift("-")),
    ("datetime", "add_intervals"): Entry(_add_intervals),
    ("datetime", "multiply"): Entry(_multiply),
    ("datetime", "assume_timezone"): Entry(_assume_timezone),
    ("datetime", "local_timestamp"): Entry(_local_timestamp),
    ("datetime", "strptime_time"): Entry(_parse, note="the format must be a constant"),
    ("datetime", "strptime_date"): Entry(_parse, note="the format must be a constant"),
    ("datetime", "strptime_timestamp"): Entry(nulls_first(_parse_timestamp), note="the format must be a constant"),
    ("datetime", "strftime"): Entry(_format, note="the format must be a constant"),
    **{("datetime", name): template for name, template in comparisons("lt", "lte", "gt", "gte").items()},
}

"""Slices of time: the slice that a moment is in, by its number, and the moment at which a slice begins.

Moments are counted in *ticks*, the units of their type in DuckDB.
"""

from __future__ import annotations

from typing import Final

from ....ir import types as t
from ....ir.arrow_types import digits
from ..named_values import let
from ..use import Entry, Table, Use, error

_DAY_0: Final = "DATE '1970-01-01'"
_WITHIN: Final = "TRY_CAST({0} AS TIMESTAMP)"
"""A timestamp of seconds or milliseconds; null if DuckDB cannot count it in microseconds, as its functions do."""

_COUNTED: Final = {
    0: f"(epoch_ms({_WITHIN}) // 1000)",
    3: f"epoch_ms({_WITHIN})",
    6: "epoch_us({0})",
    9: "epoch_ns({0})",
}
_MICROS: Final = 6
_EXACT: Final = 2**53
"""Whole numbers up to this are exact as doubles."""


def _constants(use: Use, type_: t.Type) -> tuple[int, int]:
    """The size and the origin of the slices, in ticks."""
    size, origin = use.constant(1), use.constant(2)
    if not isinstance(size, int) or not isinstance(origin, int) or size < 1:
        use.refuse("size and origin must be constants, the size above 0")
    unit = 10 ** (digits(type_) - type_.precision) if isinstance(type_, t.Timestamp | t.TimestampTz) else 1
    size, origin = size * unit, origin * unit
    if max(size, abs(origin)) >= 2**62:
        use.refuse("the slices are too long, or begin too far from 1970")
    return size, origin


def ticks_sql(x: str, type_: t.Type) -> str:
    """A moment in ticks since 1970. An infinite one is an error, and one that is too far away."""
    counted = _finite_ticks(x, type_)
    if not isinstance(type_, t.Timestamp | t.TimestampTz):
        return counted
    wrong = f"WHEN {x} IS NOT NULL THEN {error('an infinite time is in no window')}"
    if digits(type_) < _MICROS:
        beyond = error("a time before the year -290308 or after 294247 is in no window")
        wrong = f"WHEN {x} IS NOT NULL AND {_WITHIN.format(x)} IS NULL THEN {beyond} {wrong}"
    return f"coalesce({counted}, CASE {wrong} END)"


def _finite_ticks(x: str, type_: t.Type) -> str:
    """A moment in ticks since 1970; null for an infinite timestamp, and for one that is too far away."""
    match type_:
        case t.Date():
            return f"({x} - {_DAY_0})"
        case t.Timestamp() | t.TimestampTz():
            return _COUNTED[digits(type_)].format(x)
        case _:
            return x


def _time_slice(use: Use) -> str:
    """The ticks from the origin, divided and rounded down. The origin is taken into the first slice from 0 on, so that
    nothing overflows: the remainder, of the moment's sign, says whether the quotient is one or two too high.

    DuckDB divides doubles several times faster. If the dividend and the divisor are together at most 2^53, the quotient
    of two doubles is never rounded up to a whole number that the exact one is below.
    """
    type_ = use.type(0)
    size, origin = _constants(use, type_)
    whole, part = divmod(origin, size)
    moved = f" - {whole}" if whole > 0 else f" + {-whole}" if whole < 0 else ""

    def divided(x: str) -> str:
        ticks = ticks_sql(x, type_)
        number = f"{ticks} // {size} - CAST({ticks} % {size} < {part} AS BIGINT)"
        if part:
            number += f" - CAST({ticks} % {size} < {part - size} AS BIGINT)"
        near = _EXACT - 2 * size
        if near > 0 and not _has_nanoseconds(type_):
            ticks = _finite_ticks(x, type_)
            quotient = f"CAST(floor(CAST({ticks} - {part} AS DOUBLE) / {size}::DOUBLE) AS BIGINT)"
            number = f"CASE WHEN {ticks} BETWEEN {-near} AND {near} THEN {quotient} ELSE {number} END"
        return f"({number}{moved})"

    return let(use.arguments[0], divided)


def _has_nanoseconds(type_: t.Type) -> bool:
    """Tests for ticks that are beyond 2^53 a few months from 1970."""
    return isinstance(type_, t.Timestamp | t.TimestampTz) and digits(type_) > _MICROS


def range_of(type_: t.Type) -> tuple[int, int]:
    """The least and greatest ticks: beyond them are DuckDB's infinities. It makes moments of whole microseconds."""
    match type_:
        case t.Date():
            return -(2**31) + 2, 2**31 - 2
        case t.Timestamp() | t.TimestampTz() if digits(type_) < _MICROS:
            most = (2**63 - 2) // 10 ** (_MICROS - digits(type_))
            return -most, most
        case _:
            return -(2**63) + 2, 2**63 - 2


def _slice_start(use: Use) -> str:
    type_ = use.type(2)
    size, origin = _constants(use, type_)
    least, most = range_of(type_)
    reach = f"{-(-(least - origin) // size)} AND {(most - origin) // size}"
    beyond = error(f"a window of time begins or ends beyond what {type_} can hold")

    def moment(number: str) -> str:
        ticks = f"{number} * {size} + {origin}"
        return f"CASE WHEN {number} IS NULL OR {number} BETWEEN {reach} THEN {_moment(ticks, type_)} ELSE {beyond} END"

    return use.cast(let(use.arguments[0], moment))


def _moment(ticks: str, type_: t.Type) -> str:
    match type_:
        case t.Date():
            return f"({_DAY_0} + CAST({ticks} AS INTEGER))"
        case t.Timestamp() | t.TimestampTz():
            zoned = isinstance(type_, t.TimestampTz)
            match digits(type_):
                case 9:
                    moment = f"make_timestamp_ns({ticks})"
                    return f"CAST({moment} AS TIMESTAMPTZ_NS)" if zoned else moment
                case 6 if zoned:
                    return f"make_timestamptz({ticks})"
                case digit_count:
                    return f"make_timestamp(({ticks}) * {10 ** (_MICROS - digit_count)})"
        case _:
            return f"({ticks})"


TABLE: Final[Table] = {
    ("event_time", "time_slice"): Entry(_time_slice, note="size and origin must be constants"),
    ("event_time", "slice_start"): Entry(_slice_start, note="size and origin must be constants"),
}

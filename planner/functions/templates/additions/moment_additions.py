"""Moments: truncation, numbers and texts as moments, moments as texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .....operators.core import quoting
from ....ir import types as t
from ..named_values import let
from ..use import Entry, Table, Template, Use, error, readable_moment

_UNITS: Final = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"}
)
_DIRECTIVES: Final = {
    **{directive: f"%{directive}" for directive in "YymdjHIpMSaAbBuwGVUW%"},
    **{f"-{directive}": f"%-{directive}" for directive in "dmyHIMSj"},
    "F": "%Y-%m-%d",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "D": "%m/%d/%y",
    "h": "%b",
    "f": "%f000",
    **{
        f"{dot}{count}f": f"{dot}{digits}"
        for dot in (".", "")
        for count, digits in ((3, "%g"), (6, "%f"), (9, "%f000"))
    },
}
"""The directives that have one meaning everywhere, and those of Rust's chrono that DuckDB writes otherwise."""
_DIRECTIVE: Final = re.compile(r"%(\.?\d?f|-?.)?", re.DOTALL)
_FRACTIONS: Final = frozenset({"3f", "6f", "9f", "f", ".3f", ".6f", ".9f"})
_MICROS: Final = 6
_FIRST_MICROSECOND: Final = -9_223_372_022_400_000_000
"""DuckDB's first moment."""
_DAY: Final = 86_400_000_000
"""The microseconds of a day."""
_DIRECTIVE_OF_DUCKDB: Final = re.compile(r"%-?.", re.DOTALL)
_ORIGIN: Final = "TIMESTAMP '1970-01-01'"


def _fine(use: Use, index: int) -> str:
    """A moment that DuckDB does not cut."""
    type_ = use.type(index)
    if isinstance(type_, t.Timestamp | t.TimestampTz) and type_.precision > _MICROS:
        use.refuse(f"DuckDB would cut {type_} to microseconds here (precision up to {_MICROS})")
    return use.arguments[index]


def _coarse(use: Use, index: int) -> str:
    """A moment without its nanoseconds, where the function drops them anyway."""
    type_ = use.type(index)
    if not isinstance(type_, t.Timestamp | t.TimestampTz) or type_.precision <= _MICROS:
        return use.arguments[index]
    function = "make_timestamp" if isinstance(type_, t.Timestamp) else "make_timestamptz"
    return let(
        f"epoch_ns({use.arguments[index]})", lambda n: f"{function}(({n} - (({n} % 1000) + 1000) % 1000) // 1000)"
    )


def _shift(symbol: str) -> Template:
    def template(use: Use) -> str:
        x, interval = _fine(use, 0), use.arguments[1]
        if isinstance(use.type(0), t.Date):
            return use.cast(f"({x} {symbol} {let(interval, _whole_days)})")
        return use.cast(f"({x} {symbol} {interval})")

    return template


def _whole_days(interval: str) -> str:
    """An interval whose time of day is cut, towards zero, to whole days."""
    months = f"date_part('year', {interval}) * 12 + date_part('month', {interval})"
    time = (
        f"date_part('hour', {interval}) * 3600000000 + date_part('minute', {interval}) * 60000000"
        f" + date_part('microsecond', {interval})"
    )
    days = f"date_part('day', {interval}) + ({time}) // {_DAY}"
    return f"(to_months(CAST({months} AS INTEGER)) + to_days(CAST({days} AS INTEGER)))"


def _subtract(use: Use) -> str:
    return _shift("-")(use) if isinstance(use.type(1), t.IntervalCompound) else _difference(use)


def _difference(use: Use) -> str:
    """The days from one date to another, or the time from one moment to another. DuckDB's intervals have microseconds,
    so a difference with nanoseconds is an error.
    """
    x, y = use.arguments
    if isinstance(use.type(0), t.Date):
        return f"({x} - {y})"
    fine = (isinstance(type_, t.Timestamp) and type_.precision > _MICROS for type_ in (use.type(0), use.type(1)))
    if not any(fine):
        return f"to_microseconds(epoch_us({x}) - epoch_us({y}))"
    coarse = error("the time between these moments has nanoseconds, which DuckDB's intervals do not hold")
    return let(
        f"(epoch_ns({x}) - epoch_ns({y}))",
        lambda ns: f"CASE WHEN {ns} % 1000 <> 0 THEN {coarse} ELSE to_microseconds({ns} // 1000) END",
    )


def _date_trunc(use: Use) -> str:
    unit = use.constant(0)
    if not isinstance(unit, str) or unit.lower() not in _UNITS:
        use.refuse(f"the unit must be a constant, one of {', '.join(sorted(_UNITS))}")
    return use.cast(f"date_trunc('{unit.lower()}', {_coarse(use, 1)})")


def _date_bin(use: Use) -> str:
    """The bins of instants are those of UTC."""
    _check_width(use)
    zoned = isinstance(use.type(1), t.TimestampTz)

    def plain(index: int) -> str:
        moment = _coarse(use, index)
        return f"({moment} AT TIME ZONE 'UTC')" if zoned else f"CAST({moment} AS TIMESTAMP)"

    origin = plain(2) if len(use.arguments) > 2 else _ORIGIN
    bucket = f"time_bucket({use.arguments[0]}, {plain(1)}, {origin})"
    return use.cast(f"({bucket} AT TIME ZONE 'UTC')" if zoned else bucket)


def _check_width(use: Use) -> None:
    """Refuses a constant width with which every epoch would fail."""
    match use.constant(0), use.type(0):
        case (int(months), int(days), int(subseconds)), t.IntervalCompound(precision=precision):
            rest = days * _DAY + subseconds * 10 ** (_MICROS - precision)
            if months and (days or subseconds):
                use.refuse("the width must have either months, or days and a time")
            if months + rest <= 0:
                use.refuse("the width must be above 0")


def _cut(quotient: str) -> Template:
    """A moment with fewer places. `quotient` divides the whole number `{n}` of its units by `{size}`."""
    return lambda use: _with_fewer_places(use, quotient)


def _with_fewer_places(use: Use, quotient: str) -> str:
    digits = use.constant(1)
    if not isinstance(digits, int):
        use.refuse("the number of places must be a constant")
    type_ = use.type(0)
    precision = type_.precision if isinstance(type_, t.Time | t.Timestamp | t.TimestampTz) else _MICROS
    unit, finest = ("ns", 9) if precision > _MICROS else ("us", _MICROS)
    size = 10 ** (finest - digits)
    make = f"make_timestamp{'_ns' if unit == 'ns' else ''}"
    moment = let(f"epoch_{unit}({use.arguments[0]})", lambda n: f"{make}({quotient.format(n=n, size=size)} * {size})")
    return use.cast(f"({moment} AT TIME ZONE 'UTC')" if isinstance(type_, t.TimestampTz) else moment)


_TO_1970: Final = "({n} // {size})"
"""DuckDB's division of whole numbers cuts towards zero."""
_TO_THE_PAST: Final = "(({n} - ({n} % {size} + {size}) % {size}) // {size})"


def _format(use: Use, unknown: frozenset[str] = frozenset()) -> str:
    """A constant format whose directives have one meaning everywhere, in DuckDB's directives."""

    def translated(match: re.Match[str]) -> str:
        if match[1] not in _DIRECTIVES or match[1] in unknown:
            have = " ".join(sorted(_DIRECTIVES.keys() - unknown))
            use.refuse(f"the directive {match.group()} is not supported; there are: {have}")
        return _DIRECTIVES[match[1]]

    return _DIRECTIVE.sub(translated, use.constant_format())


def _to_char(use: Use) -> str:
    format_ = _format(use, _FRACTIONS if isinstance(use.type(0), t.Date) else frozenset())
    if not any(match.group() in _YEAR_TEXTS for match in _DIRECTIVE_OF_DUCKDB.finditer(format_)):
        return f"strftime({_fine(use, 0)}, {quoting.text(format_)})"
    return let(_fine(use, 0), lambda x: _with_any_year(x, format_))


def _signed(part: str) -> Callable[[str], str]:
    """The year of a moment in four digits; with a sign where it has more, or lies before the year 0."""

    def written(x: str) -> str:
        year = f"date_part('{part}', {x})"
        short, long = (f"format('{{:{width}d}}', {year})" for width in ("04", "+05"))
        return f"(CASE WHEN {year} BETWEEN 0 AND 9999 THEN {short} ELSE {long} END)"

    return written


_YEAR_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    "%Y": _signed("year"),
    "%G": _signed("isoyear"),
    "%y": lambda x: f"format('{{:02d}}', (date_part('year', {x}) % 100 + 100) % 100)",
}
"""The years of a moment by DuckDB's directives, as Rust's chrono writes them."""


def _with_any_year(x: str, format_: str) -> str:
    """A moment by a format of DuckDB, which writes years from 1 to 9998 as Rust's chrono does."""
    parts: list[str] = []
    plain, end = "", 0
    for match in _DIRECTIVE_OF_DUCKDB.finditer(format_):
        plain, end = plain + format_[end : match.start()], match.end()
        if (year := _YEAR_TEXTS.get(match.group())) is None:
            plain += match.group()
            continue
        parts += [f"strftime({x}, {quoting.text(plain)})"] if plain else []
        parts.append(year(x))
        plain = ""
    plain += format_[end:]
    parts += [f"strftime({x}, {quoting.text(plain)})"] if plain else []
    usual = f"date_part('year', {x}) BETWEEN 1 AND 9998"
    return f"CASE WHEN {usual} THEN strftime({x}, {quoting.text(format_)}) ELSE {' || '.join(parts)} END"


def _to_date(use: Use) -> str:
    if len(use.arguments) == 1:
        return use.cast(use.arguments[0])
    return use.cast(f"strptime({readable_moment(use.arguments[0])}, {quoting.text(_format(use, _FRACTIONS))})")


def _units(per_second: int) -> Template:
    """The moment so many units after 1970. Nanoseconds hold every unit, and overflow is an error."""

    def template(use: Use) -> str:
        if isinstance(use.type(0), t.String):
            return use.cast(use.arguments[0])
        if isinstance(use.result, t.Timestamp) and use.result.precision > _MICROS:
            return f"make_timestamp_ns({use.arguments[0]} * {10**9 // per_second})"
        return use.cast(let(f"({use.arguments[0]} * {10**6 // per_second})", _from_microseconds))

    return template


def _from_microseconds(n: str) -> str:
    """DuckDB makes a moment of every number, and stops for ever when it is to show one that is too early."""
    failure = error("a moment before the year -290308")
    return f"CASE WHEN {n} < {_FIRST_MICROSECOND} THEN {failure} ELSE make_timestamp({n}) END"


def _iso_text(use: Use) -> str:
    """The text with a T between date and time, and 0, 3, 6 or 9 digits behind the second; an instant's is of UTC."""
    x, type_ = use.arguments[0], use.type(0)
    if isinstance(type_, t.Date):
        return let(x, lambda day: _with_any_year(day, "%Y-%m-%d"))
    if isinstance(type_, t.TimestampTz):
        x = f"({_fine(use, 0)} AT TIME ZONE 'UTC')"
    elif isinstance(type_, t.Timestamp) and type_.precision <= _MICROS:
        x = f"CAST({x} AS TIMESTAMP)"
    return let(x, lambda moment: _iso_time(moment, type_))


def _iso_time(x: str, type_: t.Type) -> str:
    zone = "Z" if isinstance(type_, t.TimestampTz) else ""
    if isinstance(type_, t.Timestamp) and type_.precision > _MICROS:
        behind = f"((epoch_ns({x}) % 1000000000 + 1000000000) % 1000000000)"
        digits = (
            f"CASE WHEN {behind} = 0 THEN '' WHEN {behind} % 1000000 = 0 THEN format('.{{:03d}}', {behind} // 1000000)"
            f" WHEN {behind} % 1000 = 0 THEN format('.{{:06d}}', {behind} // 1000)"
            f" ELSE format('.{{:09d}}', {behind}) END"
        )
        return f"(strftime({x}, '%Y-%m-%dT%H:%M:%S') || {digits})"
    micros = f"date_part('microsecond', {x})"
    whole, millis, fine = (_with_any_year(x, f"%Y-%m-%dT%H:%M:%S{digits}{zone}") for digits in ("", ".%g", ".%f"))
    return f"CASE WHEN {micros} % 1000000 = 0 THEN {whole} WHEN {micros} % 1000 = 0 THEN {millis} ELSE {fine} END"


def _epoch(use: Use) -> str:
    return use.cast(f"date_part('epoch', {use.arguments[0]})")


def _nanosecond(use: Use) -> str:
    """The nanoseconds of the minute. Most moments have no count of nanoseconds of 64 bits."""
    x, type_ = use.arguments[0], use.type(0)
    fine = isinstance(type_, t.Timestamp | t.TimestampTz) and type_.precision > _MICROS
    unit, size, factor = ("ns", 60_000_000_000, 1) if fine else ("us", 60_000_000, 1_000)
    return let(f"epoch_{unit}({x})", lambda n: f"((({n} % {size} + {size}) % {size}) * {factor})")


def _to_local_time(use: Use) -> str:
    x = use.arguments[0]
    return f"({x} AT TIME ZONE 'UTC')" if isinstance(use.type(0), t.TimestampTz) else x


def _whole_seconds(use: Use) -> str:
    """The division of whole numbers cuts towards zero, which is 1970. A double has no room for every microsecond."""
    type_ = use.type(0)
    fine = isinstance(type_, t.Timestamp | t.TimestampTz) and type_.precision > _MICROS
    unit, size = ("ns", 10**9) if fine else ("us", 10**6)
    return f"(epoch_{unit}({use.arguments[0]}) // {size})"


TABLE: Final[Table] = {
    ("moments", "add"): Entry(_shift("+")),
    ("moments", "subtract"): Entry(_subtract),
    ("moments", "cut"): Entry(_cut(_TO_1970), note="the number of places must be a constant"),
    ("moments", "cut_down"): Entry(_cut(_TO_THE_PAST), note="the number of places must be a constant"),
    ("moments", "date_bin"): Entry(_date_bin),
    ("moments", "date_trunc"): Entry(_date_trunc, note="the unit must be a constant"),
    ("moments", "epoch"): Entry(_epoch),
    ("moments", "from_unixtime"): Entry(_units(1)),
    ("moments", "iso_text"): Entry(_iso_text),
    ("moments", "make_date"): Entry(lambda use: f"make_date({', '.join(use.arguments)})"),
    ("moments", "make_time"): Entry(lambda use: f"make_time({', '.join(use.arguments)})"),
    ("moments", "nanosecond"): Entry(_nanosecond),
    ("moments", "to_char"): Entry(_to_char, note="the format must be a constant"),
    ("moments", "to_date"): Entry(_to_date, note="the format must be a constant"),
    ("moments", "to_local_time"): Entry(_to_local_time),
    ("moments", "to_time"): Entry(lambda use: use.cast(use.arguments[0])),
    ("moments", "to_timestamp"): Entry(_units(1)),
    ("moments", "to_timestamp_seconds"): Entry(_units(1)),
    ("moments", "to_timestamp_millis"): Entry(_units(10**3)),
    ("moments", "to_timestamp_micros"): Entry(_units(10**6)),
    ("moments", "to_timestamp_nanos"): Entry(_units(10**9)),
    ("moments", "to_unixtime"): Entry(_whole_seconds),
}

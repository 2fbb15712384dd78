"""Texts as producers read them: those that are written otherwise are put in quotation marks, which no cast reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .....operators.core import quoting
from ..named_values import let
from ..use import Entry, Table, Use

_QUOTED: Final = "'\"' || {x} || '\"'"

_PATTERNS: Final = {
    "integer": r"\s*[+-]?[0-9]+\s*",
    "float": "[^_]*",
    "decimal": "[^_eE]*",
    "time": r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?",
    "timestamp": r"\d{4,6}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?",
}
_ZONED: Final = rf"{_PATTERNS['timestamp']}\s*([Zz]|[+-]\d{{2}}(:?\d{{2}})?)"
_WORDS: Final = {
    "true": ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"),
    "false": ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"),
}


def _boolean(x: str) -> str:
    words = ((word, ", ".join(f"'{spelling}'" for spelling in spellings)) for word, spellings in _WORDS.items())
    return " ".join(f"WHEN lower({x}) IN ({spellings}) THEN '{word}'" for word, spellings in words)


def _date(x: str) -> str:
    compact = f"left({x}, 4) || '-' || substring({x}, 5, 2) || '-' || right({x}, 2)"
    return (
        f"WHEN regexp_full_match({x}, '[0-9]{{8}}') THEN {compact}"
        f" WHEN NOT regexp_matches({x}, '^\\s*[+-]?[A-Za-z]') THEN {x}"
    )


def _matching(x: str, kind: str) -> str:
    return f"WHEN regexp_full_match({x}, {quoting.text(_PATTERNS[kind])}) THEN {x}"


def _timestamp(x: str) -> str:
    """A text with an offset is written in UTC."""
    utc = f"CAST(TRY_CAST({x} AS TIMESTAMPTZ_NS) AT TIME ZONE 'UTC' AS VARCHAR)"
    zoned = f"regexp_full_match({x}, {quoting.text(_ZONED)})"
    return f"{_matching(x, 'timestamp')} WHEN {zoned} THEN coalesce({utc}, {_QUOTED.format(x=x)})"


def _time(precision: int) -> Callable[[str], str]:
    """A text that is an integer is a number of the least units of a time with so many places."""
    units, day = f"CAST({{x}} AS BIGINT) * {10 ** (9 - precision)}", 86_400 * 10**precision
    seconds = f"(TIME '00:00:00' + to_seconds({units} // 1000000000))"
    clock = f"{seconds} || '.' || lpad(CAST({units} % 1000000000 AS VARCHAR), 9, '0')"

    def branches(x: str) -> str:
        is_number = f"regexp_full_match({x}, '[+]?[0-9]{{1,18}}')"
        within = f"CASE WHEN {is_number} THEN CAST({x} AS BIGINT) < {day} ELSE false END"
        return f"{_matching(x, 'time')} WHEN {within} THEN {clock.format(x=x)}"

    return branches


_OTHERS: Final = {f"time_{precision}": _time(precision) for precision in range(10)} | {
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}


def _readable(use: Use) -> str:
    kind = use.constant(1)
    if not isinstance(kind, str) or kind not in (*_PATTERNS, *_OTHERS):
        use.refuse(f"the kind must be a constant, one of {', '.join(sorted({*_PATTERNS, *_OTHERS}))}")

    def checked(x: str) -> str:
        branches = _OTHERS[kind](x) if kind in _OTHERS else _matching(x, kind)
        return f"CASE {branches} ELSE {_QUOTED.format(x=x)} END"

    return let(use.arguments[0], checked)


TABLE: Final[Table] = {("text", "readable"): Entry(_readable, note="the kind must be a constant")}

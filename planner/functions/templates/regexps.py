"""Regular expressions in RE2's dialect, which DuckDB uses. RE2 reports look-around and back-references as errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....operators.core import quoting
from .use import Entry, Table, Use, error, let, let_all, maybe_null

_OPTIONS: Final = {
    "case_sensitivity": ("CASE_SENSITIVE", "CASE_INSENSITIVE"),
    "multiline": ("MULTILINE_DISABLED", "MULTILINE_ENABLED"),
    "dotall": ("DOTALL_DISABLED", "DOTALL_ENABLED"),
}
_NOTE: Final = "patterns are RE2's: look-around is an error"


def _pattern(use: Use) -> str:
    """The pattern with its options as flags in front, so that no default of the engine decides."""
    on = "i" if use.choices["case_sensitivity"] == "CASE_INSENSITIVE" else ""
    off = ""
    for flag, option in (("m", "multiline"), ("s", "dotall")):
        if use.choices[option].endswith("ENABLED"):
            on += flag
        else:
            off += flag
    flags = f"(?{on}{f'-{off}' if off else ''})"
    constant = use.constant(1)
    return quoting.text(flags + constant) if isinstance(constant, str) else f"('{flags}' || {use.arguments[1]})"


def _from(x: str, position: str | None) -> str:
    return x if position is None or position == "CAST(1 AS BIGINT)" else f"substring({x}, {position})"


def _all(x: str, pattern: str, position: str | None, group: str) -> str:
    return f"regexp_extract_all({_from(x, position)}, {pattern}, {group})"


def _match(use: Use) -> str:
    """The match; null if there is none."""
    x, _, *rest = use.arguments
    position, occurrence, group = rest or (None, "1", "0")
    return f"list_extract({_all(x, _pattern(use), position, f'CAST({group} AS INTEGER)')}, {occurrence})"


def _match_all(use: Use) -> str:
    x, _, position, group = use.arguments
    return _all(x, _pattern(use), position, f"CAST({group} AS INTEGER)")


def _count(use: Use) -> str:
    x, _, *rest = use.arguments
    return f"len({_all(x, _pattern(use), rest[0] if rest else None, '0')})"


def _replace(use: Use) -> str:
    x, _, new, *rest = use.arguments
    if not rest:
        return f"regexp_replace({x}, {_pattern(use)}, {new})"
    if use.constant(4) not in (0, 1):
        use.refuse("the occurrence to replace must be the constant 0 or 1")
    position = rest[0]
    if use.constant(3) == 1:
        return f"regexp_replace({x}, {_pattern(use)}, {new})"

    def replaced(values: Sequence[str]) -> str:
        v, start = values
        behind = f"(left({v}, {start} - 1) || regexp_replace(substring({v}, {start}), {_pattern(use)}, {new}))"
        return f"CASE WHEN {start} < 1 THEN {error('regexp_replace from a position below 1')} ELSE {behind} END"

    return let_all([x, position], replaced)


def _split(use: Use) -> str:
    """The parts between matches; null without a pattern, where DuckDB gives the whole string."""
    if not maybe_null(use, 1):
        return f"regexp_split_to_array({use.arguments[0]}, {_pattern(use)})"
    x = use.arguments[0]
    return let(_pattern(use), lambda p: f"CASE WHEN {p} IS NOT NULL THEN regexp_split_to_array({x}, {p}) END")


TABLE: Final[Table] = {
    ("string", "regexp_match_substring"): Entry(_match, _OPTIONS, _NOTE, may_be_null=True),
    ("string", "regexp_match_substring_all"): Entry(_match_all, _OPTIONS, _NOTE),
    ("string", "regexp_count_substring"): Entry(_count, _OPTIONS, _NOTE),
    ("string", "regexp_replace"): Entry(
        _replace,
        _OPTIONS,
        f"{_NOTE}; occurrence 0 replaces the first match, as in the official cases; the extension's text has it all",
    ),
    ("string", "regexp_string_split"): Entry(_split, _OPTIONS, _NOTE),
}

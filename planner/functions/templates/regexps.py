"""Regular expressions in RE2's dialect, which DuckDB uses. RE2 reports back-references as errors; patterns with
look-around are Python's, where they are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ....operators.core import quoting
from ....operators.python_functions import LOOK_AROUND
from ....operators.python_functions.look_around import has_look_around, read
from . import regexp_calls
from .named_values import let, let_all
from .regexp_calls import Pattern
from .use import Entry, Table, Use, error, maybe_null

_OPTIONS: Final = {
    "case_sensitivity": ("CASE_SENSITIVE", "CASE_INSENSITIVE"),
    "multiline": ("MULTILINE_DISABLED", "MULTILINE_ENABLED"),
    "dotall": ("DOTALL_DISABLED", "DOTALL_ENABLED"),
}
_NOTE: Final = (
    "patterns are RE2's; a constant pattern may have look-around, which bounds the "
    "[length of texts](plans-and-coverage.md#regular-expressions)"
)


def _flags(use: Use) -> tuple[str, str]:
    """The flags that are on and those that are off."""
    on = "i" if use.choices["case_sensitivity"] == "CASE_INSENSITIVE" else ""
    off = ""
    for flag, option in (("m", "multiline"), ("s", "dotall")):
        if use.choices[option].endswith("ENABLED"):
            on += flag
        else:
            off += flag
    return on, off


def _looking(use: Use, how: str, text: str, argument: str) -> str | None:
    """The list of texts that Python's engine finds; None if the pattern has no look-around."""
    constant, (flags, _) = use.constant(1), _flags(use)
    if not isinstance(constant, str) or not has_look_around(constant):
        return None
    try:
        read(constant, flags)
    except ValueError as error:
        use.refuse(str(error))
    return f"{LOOK_AROUND}('{how}:{flags}', {text}, {use.arguments[1]}, {argument})"


def _pattern(use: Use) -> Pattern:
    """The pattern with its options as flags in front, so that no default of the engine decides."""
    on, off = _flags(use)
    flags = f"(?{on}{f'-{off}' if off else ''})"
    constant = use.constant(1)
    if isinstance(constant, str):
        return Pattern(quoting.text(flags + constant), flags + constant)
    return Pattern(f"('{flags}' || {use.arguments[1]})", may_be_null=maybe_null(use, 1))


def _from_one(use: Use, index: int, what: str) -> str:
    """An argument that counts from one. A smaller number is an error: DuckDB would count from the text's end."""
    constant = use.constant(index)
    if isinstance(constant, int) and constant >= 1:
        return use.arguments[index]
    below = error(f"{use.name} from {what} below 1")
    return let(use.arguments[index], lambda number: f"CASE WHEN {number} < 1 THEN {below} ELSE {number} END")


def _searched(use: Use) -> str:
    """The text from the position that an argument names, if there is one: the third, or behind a replacement."""
    x, at = use.arguments[0], 3 if use.name == "regexp_replace" else 2
    if len(use.arguments) <= at or use.constant(at) == 1:
        return x
    return f"substring({x}, {_from_one(use, at, 'a position')})"


def _all(use: Use, group: str) -> str:
    looking = _looking(use, "all", _searched(use), f"CAST(CAST({group} AS INTEGER) AS VARCHAR)")
    return looking or regexp_calls.extract_all(_searched(use), _pattern(use), group)


def _match(use: Use) -> str:
    """The match; null if there is none."""
    if len(use.arguments) == 2:
        return f"list_extract({_all(use, '0')}, 1)"
    return f"list_extract({_all(use, use.arguments[4])}, {_from_one(use, 3, 'an occurrence')})"


def _match_all(use: Use) -> str:
    return _all(use, use.arguments[3])


def _count(use: Use) -> str:
    return f"len({_all(use, '0')})"


def _replace(use: Use) -> str:
    x, _, new, *rest = use.arguments
    if not rest:
        return _replaced(use, x, new)
    if use.constant(4) not in (0, 1):
        return _replaced_later(use)
    if use.constant(3) == 1:
        return _replaced(use, x, new)

    def replaced(values: Sequence[str]) -> str:
        v, start = values
        return f"(left({v}, {start} - 1) || {_replaced(use, f'substring({v}, {start})', new, size_of=v)})"

    return let_all([x, _from_one(use, 3, "a position")], replaced)


def _replaced_later(use: Use) -> str:
    """The text with one match replaced, which may be a later one: the rest of the text from it on begins with it."""
    pattern = use.constant(1)
    if not isinstance(pattern, str) or "\\B" in pattern or has_look_around(pattern):
        use.refuse(r"to replace a later match, the pattern must be a constant without \B and without look-around")
    below = error("regexp_replace of an occurrence below 0")

    def replaced(names: Sequence[str]) -> str:
        x, _, new, _, occurrence = names
        named = replace(use, arguments=tuple(names))

        def at(position: str) -> str:
            rest = _replaced(named, f"substring({x}, {position})", new, size_of=x)
            return f"CASE WHEN {position} = 0 THEN {x} ELSE left({x}, {position} - 1) || {rest} END"

        later = let(_position(named, f"greatest({occurrence}, 1)"), at)
        return f"CASE WHEN {occurrence} < 0 THEN {below} WHEN {new} IS NOT NULL THEN {later} END"

    return let_all(use.arguments, replaced)


def _position(use: Use, occurrence: str) -> str:
    """The position of a match: behind the matches before it and the parts between them; 0 if there is none."""
    start = use.arguments[2 if use.name == "regexp_strpos" else 3]
    searched = _searched(use)
    empty = error(f"{use.name} with a pattern that matches an empty text")

    def position(values: Sequence[str]) -> str:
        matches, parts, n = values
        lengths = " + ".join(
            f"coalesce(list_sum(list_transform({texts}, lambda part: length(part))), 0)"
            for texts in (f"{parts}[1:{n}]", f"{matches}[1:{n} - 1]")
        )
        return (
            f"CASE WHEN list_contains({matches}, '') THEN {empty} WHEN len({matches}) < {n} THEN 0"
            f" WHEN len({matches}) >= {n} THEN CAST({lengths} AS BIGINT) + {start} END"
        )

    parts = _looking(use, "split", searched, "''") or regexp_calls.split(searched, _pattern(use))
    return let_all([_all(use, "0"), parts, occurrence], position)


def _strpos(use: Use) -> str:
    def position(names: Sequence[str]) -> str:
        named = replace(use, arguments=tuple(names))
        return _position(named, _from_one(named, 3, "an occurrence"))

    return let_all(use.arguments, position)


def _replaced(use: Use, text: str, new: str, *, size_of: str = "") -> str:
    looking = _looking(use, "replace", text, new)
    if looking is not None:
        return f"list_extract({looking}, 1)"
    return regexp_calls.replace(text, _pattern(use), new, size_of=size_of)


def _split(use: Use) -> str:
    """The parts between matches; null without a pattern, where DuckDB gives the whole string."""
    looking = _looking(use, "split", use.arguments[0], "''")
    return looking or regexp_calls.split(use.arguments[0], _pattern(use))


TABLE: Final[Table] = {
    ("string", "regexp_match_substring"): Entry(_match, _OPTIONS, _NOTE, may_be_null=True),
    ("string", "regexp_match_substring_all"): Entry(_match_all, _OPTIONS, _NOTE),
    ("string", "regexp_count_substring"): Entry(_count, _OPTIONS, _NOTE),
    ("string", "regexp_replace"): Entry(
        _replace,
        _OPTIONS,
        f"{_NOTE}; occurrence 0 replaces the first match, as in the official cases; by the extension's text it would "
        "replace all matches",
    ),
    ("string", "regexp_strpos"): Entry(_strpos, _OPTIONS, _NOTE),
    ("string", "regexp_string_split"): Entry(_split, _OPTIONS, _NOTE),
}

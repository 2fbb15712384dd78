"""Strings. Positions count characters from 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ....operators.core import quoting
from ....operators.python_functions import LIKE, LIKE_STEPS
from . import regexp_calls
from .comparison import balanced
from .named_values import let, let_all
from .regexp_calls import Pattern
from .use import Entry, Table, Template, Use, error, maybe_null, nulls_first

_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER: Final = _UPPER.lower()
CASES: Final = ("CASE_SENSITIVE", "CASE_INSENSITIVE", "CASE_INSENSITIVE_ASCII")
_CASE: Final = {"case_sensitivity": CASES}
_SHORT_PATTERN: Final = 100
"""The characters of a pattern that takes few steps with a text of any length."""
_CHARACTERS: Final = {"char_set": ("UTF8", "ASCII_ONLY")}


def folded(use: Use, index: int) -> str:
    """An argument in the form that the chosen case sensitivity compares."""
    sql = use.arguments[index]
    match use.choices.get("case_sensitivity"):
        case "CASE_INSENSITIVE":
            return f"lower({sql})"
        case "CASE_INSENSITIVE_ASCII":
            return f"translate({sql}, '{_UPPER}', '{_LOWER}')"
        case _:
            return sql


def _test(function: str) -> Template:
    return lambda use: f"{function}({folded(use, 0)}, {folded(use, 1)})"


def _like(use: Use) -> str:
    """LIKE. No character escapes another, in Substrait's pattern as in DuckDB's LIKE without an ESCAPE clause."""
    x, pattern = folded(use, 0), folded(use, 1)
    return bounded_like(use, [x, pattern], lambda v: f"({v[0]} LIKE {v[1]})", lambda v: f"{LIKE}({v[0]}, {v[1]}, '')")


def bounded_like(
    use: Use, sqls: Sequence[str], short: Callable[[Sequence[str]], str], long: Callable[[Sequence[str]], str]
) -> str:
    """DuckDB's LIKE of a text and a pattern, the first two of the values; for those that would take long, ours."""
    constant = use.constant(1)
    if isinstance(constant, str) and len(constant) <= _SHORT_PATTERN:
        return short(sqls)
    steps = "strlen({0}) * CAST(strlen({1}) AS DOUBLE)"
    return let_all(sqls, lambda v: f"CASE WHEN {steps.format(*v)} > {LIKE_STEPS} THEN {long(v)} ELSE {short(v)} END")


def _call(function: str) -> Template:
    return lambda use: f"{function}({', '.join(use.arguments)})"


def _concat(use: Use) -> str:
    if use.choices["null_handling"] == "IGNORE_NULLS":
        return f"concat({', '.join(use.arguments)})"
    return balanced(" || ", use.arguments)


def _substring(use: Use) -> str:
    x, start, *rest = use.arguments
    count = rest[0] if rest else None
    match use.choices.get("negative_start", "WRAP_FROM_END"):
        case "LEFT_OF_BEGINNING":
            return let(start, lambda s: _from_left(x, s, count))
        case "ERROR":
            failure = error("substring with a negative start")
            return let(start, lambda s: f"CASE WHEN {s} < 0 THEN {failure} ELSE {_from_left(x, s, count)} END")
        case _:
            return f"substring({', '.join(use.arguments)})"


def _from_left(x: str, start: str, count: str | None) -> str:
    """The part of the window [start, start + count) that lies on the string. The string's first character is 1."""
    first = f"CASE WHEN {start} < 1 THEN 1 ELSE {start} END"
    if count is None:
        return f"substring({x}, {first})"
    hidden = f"CASE WHEN {start} < 1 THEN 1 - {start} ELSE 0 END"
    return let(f"({count} - {hidden})", lambda n: f"substring({x}, {first}, CASE WHEN {n} < 0 THEN 0 ELSE {n} END)")


def _replace(use: Use) -> str:
    x, old, new = use.arguments
    if use.choices["case_sensitivity"] == "CASE_SENSITIVE":
        return f"replace({x}, {old}, {new})"
    known, known_new = use.constant(1), use.constant(2)
    literally = f"replace({new}, '\\', '\\\\')"
    if isinstance(known_new, str):
        literally = quoting.text(known_new.replace("\\", "\\\\"))
    pattern = Pattern(f"('(?i)' || regexp_escape({old}))")
    if isinstance(known, str):
        constant = f"(?i){re.escape(known)}"
        pattern = Pattern(quoting.text(constant), constant)
    return regexp_calls.replace(x, pattern, literally, every=True)


def _count_substring(use: Use) -> str:
    """The number of parts less one; null without a text to count, where DuckDB gives one part."""

    def counted(x: str, counted_text: str) -> str:
        count = f"(len(string_split({x}, {counted_text})) - 1)"
        return f"CASE WHEN {counted_text} IS NOT NULL THEN {count} END" if maybe_null(use, 1) else count

    return let_all((folded(use, 0), folded(use, 1)), lambda values: counted(*values))


def _replace_slice(use: Use) -> str:
    def replaced(values: Sequence[str]) -> str:
        x, start, count, new = values
        outside = f"{start} < 1 OR {start} > length({x}) OR {count} < 0"
        inside = f"left({x}, {start} - 1) || {new} || substring({x}, {start} + {count})"
        return f"CASE WHEN {outside} THEN NULL ELSE {inside} END"

    return let_all(use.arguments, replaced)


def _case(function: str, source: str, target: str) -> Template:
    def template(use: Use) -> str:
        (x,) = use.arguments
        if use.choices["char_set"] == "ASCII_ONLY":
            return f"translate({x}, '{source}', '{target}')"
        return f"{function}({x})"

    return template


def _upper(use: Use, sql: str) -> str:
    ascii_only = use.choices["char_set"] == "ASCII_ONLY"
    return f"translate({sql}, '{_LOWER}', '{_UPPER}')" if ascii_only else f"upper({sql})"


def _lower(use: Use, sql: str) -> str:
    ascii_only = use.choices["char_set"] == "ASCII_ONLY"
    return f"translate({sql}, '{_UPPER}', '{_LOWER}')" if ascii_only else f"lower({sql})"


def _swapcase(use: Use) -> str:
    (x,) = use.arguments
    if use.choices["char_set"] == "ASCII_ONLY":
        return f"translate({x}, '{_UPPER}{_LOWER}', '{_LOWER}{_UPPER}')"
    swapped = "CASE WHEN letter = upper(letter) THEN lower(letter) ELSE upper(letter) END"
    return f"array_to_string(list_transform(string_split({x}, ''), lambda letter: {swapped}), '')"


def _capitalize(use: Use) -> str:
    return let(use.arguments[0], lambda x: f"({_upper(use, f'left({x}, 1)')} || substring({x}, 2))")


def _words(x: str, word: str) -> str:
    """The string with each of its words replaced by `word`, an SQL expression over `word`."""
    parts = f"regexp_extract_all({x}, '\\s+|\\S+')"
    return f"array_to_string(list_transform({parts}, lambda word: {word}), '')"


def _initcap(use: Use) -> str:
    return _words(use.arguments[0], f"{_upper(use, 'left(word, 1)')} || {_lower(use, 'substring(word, 2)')}")


def _title(use: Use) -> str:
    capital = f"{_upper(use, 'left(word, 1)')} || substring(word, 2)"
    return _words(use.arguments[0], f"CASE WHEN lower(word) IN ('a', 'an', 'the') THEN word ELSE {capital} END")


def _pad(function: str) -> Template:
    """A text of a length. Without characters to pad with, which DuckDB takes for an error, it stays shorter."""

    def padded(values: Sequence[str]) -> str:
        x, length, characters = values
        wanted = f"CASE WHEN {length} < 0 THEN 0 ELSE {length} END"
        return f"CASE WHEN {characters} = '' THEN left({x}, {wanted}) ELSE {function}({x}, {wanted}, {characters}) END"

    def template(use: Use) -> str:
        x, length, characters = use.arguments
        if not use.constant(2):
            return let_all(use.arguments, padded)
        wanted = let(length, lambda n: f"CASE WHEN {n} < 0 THEN 0 ELSE {n} END")
        return f"{function}({x}, {wanted}, {characters})"

    return template


def _center(use: Use) -> str:
    more_left = use.choices["padding"] == "LEFT"

    def centered(values: Sequence[str]) -> str:
        x, length, character = values
        missing = f"({length} - length({x}))"
        left = f"({missing} + 1) // 2" if more_left else f"{missing} // 2"
        right = f"{missing} // 2" if more_left else f"({missing} + 1) // 2"
        both = f"repeat({character}, {left}) || {x} || repeat({character}, {right})"
        fitting = f"{missing} <= 0" + (f" AND {character} IS NOT NULL" if maybe_null(use, 2) else "")
        return f"CASE WHEN {fitting} THEN {x} ELSE {both} END"

    return let_all(use.arguments, centered)


def _split(use: Use) -> str:
    """The parts of a string. Without a separator, the whole string is the only part."""
    if not maybe_null(use, 1):
        return f"string_split({use.arguments[0]}, {use.arguments[1]})"

    def split(values: Sequence[str]) -> str:
        x, separator = values
        parts = f"string_split({x}, {separator})"
        return f"CASE WHEN {separator} IS NULL AND {x} IS NOT NULL THEN [{x}] ELSE {parts} END"

    return let_all(use.arguments, split)


def _reverse(use: Use) -> str:
    """The characters from behind. DuckDB's own function keeps letters and the accents behind them together."""

    def reversed_(x: str) -> str:
        characters = f"array_to_string(list_reverse(string_split({x}, '')), '')"
        return f"CASE WHEN strlen({x}) = length({x}) THEN reverse({x}) ELSE {characters} END"

    return let(use.arguments[0], reversed_)


TABLE: Final[Table] = {
    ("string", "like"): Entry(_like, _CASE),
    ("string", "contains"): Entry(_test("contains"), _CASE),
    ("string", "starts_with"): Entry(_test("starts_with"), _CASE),
    ("string", "ends_with"): Entry(_test("ends_with"), _CASE),
    ("string", "strpos"): Entry(_test("strpos"), _CASE),
    ("string", "count_substring"): Entry(_count_substring, _CASE),
    ("string", "replace"): Entry(_replace, {"case_sensitivity": ("CASE_SENSITIVE", "CASE_INSENSITIVE")}),
    ("string", "concat"): Entry(_concat, {"null_handling": ("ACCEPT_NULLS", "IGNORE_NULLS")}),
    ("string", "concat_ws"): Entry(
        _call("concat_ws"), note="nulls among the strings are left out, as in the official cases"
    ),
    ("string", "substring"): Entry(_substring, {"negative_start": ("WRAP_FROM_END", "LEFT_OF_BEGINNING", "ERROR")}),
    ("string", "replace_slice"): Entry(nulls_first(_replace_slice), may_be_null=True),
    ("string", "repeat"): Entry(_call("repeat")),
    ("string", "reverse"): Entry(_reverse),
    ("string", "left"): Entry(_call("left")),
    ("string", "right"): Entry(_call("right")),
    ("string", "ltrim"): Entry(_call("ltrim")),
    ("string", "rtrim"): Entry(_call("rtrim")),
    ("string", "trim"): Entry(_call("trim")),
    ("string", "lpad"): Entry(_pad("lpad")),
    ("string", "rpad"): Entry(_pad("rpad")),
    ("string", "center"): Entry(_center, {"padding": ("RIGHT", "LEFT")}),
    ("string", "lower"): Entry(_case("lower", _UPPER, _LOWER), _CHARACTERS),
    ("string", "upper"): Entry(_case("upper", _LOWER, _UPPER), _CHARACTERS),
    ("string", "swapcase"): Entry(_swapcase, _CHARACTERS),
    ("string", "capitalize"): Entry(_capitalize, _CHARACTERS),
    ("string", "initcap"): Entry(_initcap, _CHARACTERS),
    ("string", "title"): Entry(_title, _CHARACTERS),
    ("string", "char_length"): Entry(_call("length")),
    ("string", "bit_length"): Entry(_call("bit_length")),
    ("string", "octet_length"): Entry(_call("strlen")),
    ("string", "string_split"): Entry(
        _split, note="without a separator the whole string is the only part, as in the official cases"
    ),
}

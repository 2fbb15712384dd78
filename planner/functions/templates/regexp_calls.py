"""Calls of DuckDB's regular expressions. DuckDB cannot interrupt a search while it computes 2,048 rows: a row whose
search may take many steps goes to `REGULAR_EXPRESSION` instead, which gives the same answers in steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ....operators.python_functions import REGULAR_EXPRESSION, SHARED_STEPS
from ....operators.python_functions.re2_cost import cost_of
from .named_values import let_all

_SHORT_PATTERN: Final = 200
"""The most bytes of a pattern from a column that DuckDB compiles among other rows."""

_LONG_SIGNS: Final = ("{", r"\p", r"\P")
"""The signs that make such a pattern large: counted repetitions, and classes of Unicode."""

_BYTE_STEPS: Final = 8
"""The steps that a byte of another pattern takes at a byte of the text."""

_COMPILED: Final = 500
"""The steps to compile a byte of it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern in SQL, with its flags in front. `known` is the pattern, if it is a constant."""

    sql: str
    known: str | None = None
    may_be_null: bool = False


def matches(x: str, pattern: Pattern) -> str:
    """Tests whether the text has a match."""
    return _bounded(
        x,
        pattern,
        lambda v, p: f"regexp_matches({v}, {p})",
        lambda v, p: f"(len({_own('matches', v, p)}) = 1)",
    )


def extract(x: str, pattern: Pattern, group: int) -> str:
    """A group of the first match; an empty text if there is none."""
    number = f"'{group}'"
    return _bounded(
        x,
        pattern,
        lambda v, p: f"regexp_extract({v}, {p}, {group})",
        lambda v, p: f"list_extract({_own('extract', v, p, number)}, 1)",
    )


def extract_all(x: str, pattern: Pattern, group: str = "0") -> str:
    """A group of each match; `group` is SQL."""
    is_number = group.isdecimal()
    return _bounded(
        x,
        pattern,
        lambda v, p, g: f"regexp_extract_all({v}, {p}, {g if is_number else f'CAST({g} AS INTEGER)'})",
        lambda v, p, g: _own("all", v, p, f"'{g}'" if is_number else f"CAST(CAST({g} AS INTEGER) AS VARCHAR)"),
        others=(group,),
        repeated=True,
    )


def split(x: str, pattern: Pattern) -> str:
    """The parts between matches; null without a pattern, where DuckDB gives the whole string."""

    def native(v: str, p: str) -> str:
        parts = f"regexp_split_to_array({v}, {p})"
        return f"CASE WHEN {p} IS NOT NULL THEN {parts} END" if pattern.may_be_null else parts

    return _bounded(x, pattern, native, lambda v, p: _own("split", v, p), repeated=True)


def replace(x: str, pattern: Pattern, new: str, *, every: bool = False, size_of: str = "") -> str:
    """The text with one match replaced, or with all. `size_of` is a text that is no shorter, where all values are short
    SQL.
    """
    how, options = ("replace_all", ", 'g'") if every else ("replace", "")
    return _bounded(
        x,
        pattern,
        lambda v, p, n: f"regexp_replace({v}, {p}, {n}{options})",
        lambda v, p, n: f"list_extract({_own(how, v, p, n)}, 1)",
        others=(new,),
        repeated=every,
        size_of=size_of,
    )


def _own(how: str, x: str, pattern: str, argument: str = "''") -> str:
    """The call of our own function. DuckDB's hash of an expression cancels what is in it twice, as all arguments are: a
    number in `how` lets expressions have different hashes. DuckDB would compare each with each other.
    """
    number = zlib.crc32(f"{x} {pattern} {argument}".encode("utf-8", "surrogatepass"))
    return f"{REGULAR_EXPRESSION}('{how}:{number}', {x}, {pattern}, {argument})"


def _bounded(
    x: str,
    pattern: Pattern,
    native: Callable[..., str],
    own: Callable[..., str],
    *,
    others: Sequence[str] = (),
    repeated: bool = False,
    size_of: str = "",
) -> str:
    """`native` of the text, the pattern and other values; `own` where that may take many steps."""
    values = [x, *others] if pattern.known is not None else [x, *others, pattern.sql]

    def either(names: Sequence[str]) -> str:
        v, *more = names
        p = pattern.sql if pattern.known is not None else more.pop()
        many = _takes_many(size_of or v, p, pattern.known, repeated=repeated)
        return f"CASE WHEN {many} THEN {own(v, p, *more)} ELSE {native(v, p, *more)} END"

    return either(values) if size_of else let_all(values, either)


def _takes_many(x: str, pattern: str, known: str | None, *, repeated: bool) -> str:
    """Tests whether a search may take more steps than DuckDB should take among other rows."""
    if known is not None:
        return f"strlen({x}) > {cost_of(known).shared_bytes(repeated=repeated)}"
    size = f"CAST(strlen({x}) AS DOUBLE)"
    steps = f"strlen({pattern}) * ({_COMPILED} + {size} * {_BYTE_STEPS}" + (f" * {size})" if repeated else ")")
    signs = " OR ".join(f"contains({pattern}, '{sign}')" for sign in _LONG_SIGNS)
    return f"strlen({pattern}) > {_SHORT_PATTERN} OR {steps} > {SHARED_STEPS} OR {signs}"

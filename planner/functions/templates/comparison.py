"""Comparisons and boolean logic.

Floats compare as DuckDB, DataFusion and Spark do, which Substrait leaves open: NaN equals itself and is the largest
value. Blanks at the end of a `fixedchar` do not count, so that padded and unpadded data compare alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ... import types as t
from .use import Entry, Table, Template, Use


def balanced(symbol: str, parts: Sequence[str]) -> str:
    """The parts joined by an associative operator as a tree of logarithmic depth: parsers recurse on it."""
    layer = list(parts)
    while len(layer) > 1:
        pairs = [f"({symbol.join(layer[i : i + 2])})" for i in range(0, len(layer) - 1, 2)]
        layer = pairs + layer[len(layer) & ~1 :]
    return layer[0]


def comparable(use: Use, index: int) -> str:
    """An argument as comparisons see it."""
    sql = use.arguments[index]
    return f"rtrim({sql}, ' ')" if isinstance(use.type(index), t.FixedChar) else sql


def _operator(symbol: str) -> Template:
    return lambda use: f"({comparable(use, 0)} {symbol} {comparable(use, 1)})"


def _around(before: str, after: str) -> Template:
    return lambda use: f"({before}{use.arguments[0]}{after})"


def _logic(symbol: str, empty: str) -> Template:
    return lambda use: balanced(symbol, use.arguments) if use.arguments else empty


def _between(use: Use) -> str:
    return f"({comparable(use, 0)} BETWEEN {comparable(use, 1)} AND {comparable(use, 2)})"


TABLE: Final[Table] = {
    ("comparison", "equal"): Entry(_operator("=")),
    ("comparison", "not_equal"): Entry(_operator("<>")),
    ("comparison", "lt"): Entry(_operator("<")),
    ("comparison", "lte"): Entry(_operator("<=")),
    ("comparison", "gt"): Entry(_operator(">")),
    ("comparison", "gte"): Entry(_operator(">=")),
    ("comparison", "is_distinct_from"): Entry(_operator("IS DISTINCT FROM")),
    ("comparison", "is_not_distinct_from"): Entry(_operator("IS NOT DISTINCT FROM")),
    ("comparison", "between"): Entry(_between),
    ("comparison", "is_null"): Entry(_around("", " IS NULL")),
    ("comparison", "is_not_null"): Entry(_around("", " IS NOT NULL")),
    ("comparison", "is_true"): Entry(_around("", " IS TRUE")),
    ("comparison", "is_not_true"): Entry(_around("", " IS NOT TRUE")),
    ("comparison", "is_false"): Entry(_around("", " IS FALSE")),
    ("comparison", "is_not_false"): Entry(_around("", " IS NOT FALSE")),
    ("comparison", "coalesce"): Entry(lambda use: f"coalesce({', '.join(use.arguments)})"),
    ("comparison", "nullif"): Entry(lambda use: f"nullif({', '.join(use.arguments)})"),
    ("boolean", "and"): Entry(_logic(" AND ", "true")),
    ("boolean", "or"): Entry(_logic(" OR ", "false")),
    ("boolean", "not"): Entry(_around("NOT ", "")),
    ("datetime", "lt"): Entry(_operator("<")),
    ("datetime", "lte"): Entry(_operator("<=")),
    ("datetime", "gt"): Entry(_operator(">")),
    ("datetime", "gte"): Entry(_operator(">=")),
}

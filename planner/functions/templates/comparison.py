"""Comparisons and boolean logic.

Floats compare as DuckDB, DataFusion and Spark do, which Substrait leaves open: NaN equals itself and is the largest
value. Blanks at the end of a `fixedchar` do not count, so that padded and unpadded data compare alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir import types as t
from .named_values import let_all
from .use import Entry, Table, Template, Use


def balanced(symbol: str, parts: Sequence[str]) -> str:
    """The parts joined by an associative operator as a tree of logarithmic depth: parsers recurse on it."""
    layer = list(parts)
    while len(layer) > 1:
        pairs = [f"({symbol.join(layer[i : i + 2])})" for i in range(0, len(layer) - 1, 2)]
        layer = pairs + layer[len(layer) & ~1 :]
    return layer[0]


def rows_equal(row: Sequence[str], other: Sequence[str]) -> str:
    """The equality of two rows: null where a null decides it."""
    return f"({' AND '.join(f'{this} = {that}' for this, that in zip(row, other, strict=True))})"


def comparable(use: Use, index: int) -> str:
    """An argument in the form that comparisons see."""
    sql = use.arguments[index]
    return f"rtrim({sql}, ' ')" if isinstance(use.type(index), t.FixedChar) else sql


def _operator(symbol: str) -> Template:
    return lambda use: f"({comparable(use, 0)} {symbol} {comparable(use, 1)})"


def _around(before: str, after: str) -> Template:
    return lambda use: f"({before}{use.arguments[0]}{after})"


def _logic(symbol: str, empty: str) -> Template:
    return lambda use: balanced(symbol, use.arguments) if use.arguments else empty


def _between(use: Use) -> str:
    """BETWEEN. SQL's is false if one bound alone decides; Substrait's is null if either bound is."""
    maybe = [i for i in (1, 2) if use.type(i).nullable and use.constant(i) is None]
    if not maybe:
        return f"({comparable(use, 0)} BETWEEN {comparable(use, 1)} AND {comparable(use, 2)})"

    def guarded(bounds: Sequence[str]) -> str:
        nulls = " OR ".join(f"{bounds[i - 1]} IS NULL" for i in maybe)
        return f"CASE WHEN {nulls} THEN NULL ELSE {comparable(use, 0)} BETWEEN {bounds[0]} AND {bounds[1]} END"

    return let_all([comparable(use, 1), comparable(use, 2)], guarded)


def _extreme(function: str) -> Template:
    """The least or greatest argument, null if any is: DuckDB's own functions skip nulls."""

    def template(use: Use) -> str:
        maybe = [i for i in range(len(use.arguments)) if use.type(i).nullable]
        if not maybe:
            return f"{function}({', '.join(use.arguments)})"

        def guarded(values: Sequence[str]) -> str:
            nulls = " OR ".join(f"{values[i]} IS NULL" for i in maybe)
            return f"CASE WHEN {nulls} THEN NULL ELSE {function}({', '.join(values)}) END"

        return let_all(use.arguments, guarded)

    return template


def _call(function: str) -> Template:
    return lambda use: f"{function}({', '.join(use.arguments)})"


_ORDER: Final[dict[str, str]] = {"equal": "=", "not_equal": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def comparisons(*names: str) -> dict[str, Entry]:
    """Comparisons by their official names."""
    return {name: Entry(_operator(_ORDER[name])) for name in names}


TABLE: Final[Table] = {
    **{("comparison", name): template for name, template in comparisons(*_ORDER).items()},
    ("comparison", "is_distinct_from"): Entry(_operator("IS DISTINCT FROM")),
    ("comparison", "is_not_distinct_from"): Entry(_operator("IS NOT DISTINCT FROM")),
    ("comparison", "between"): Entry(_between),
    ("comparison", "is_null"): Entry(_around("", " IS NULL")),
    ("comparison", "is_not_null"): Entry(_around("", " IS NOT NULL")),
    ("comparison", "is_true"): Entry(_around("", " IS TRUE")),
    ("comparison", "is_not_true"): Entry(_around("", " IS NOT TRUE")),
    ("comparison", "is_false"): Entry(_around("", " IS FALSE")),
    ("comparison", "is_not_false"): Entry(_around("", " IS NOT FALSE")),
    ("comparison", "is_nan"): Entry(_call("isnan")),
    ("comparison", "is_finite"): Entry(_call("isfinite")),
    ("comparison", "is_infinite"): Entry(_call("isinf")),
    ("comparison", "coalesce"): Entry(_call("coalesce")),
    ("comparison", "nullif"): Entry(_call("nullif")),
    ("comparison", "least"): Entry(_extreme("least")),
    ("comparison", "least_skip_null"): Entry(_call("least")),
    ("comparison", "greatest"): Entry(_extreme("greatest")),
    ("comparison", "greatest_skip_null"): Entry(_call("greatest")),
    ("boolean", "and"): Entry(_logic(" AND ", "true")),
    ("boolean", "or"): Entry(_logic(" OR ", "false")),
    ("boolean", "not"): Entry(_around("NOT ", "")),
    ("boolean", "and_not"): Entry(lambda use: f"({use.arguments[0]} AND NOT {use.arguments[1]})"),
    ("boolean", "xor"): Entry(_operator("<>")),
}

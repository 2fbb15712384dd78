"""Aggregates: bits, pairs of numbers, values in the order of the aggregate."""

from __future__ import annotations

from typing import Final

from ..use import Entry, Table, Template, Use


def _plain(function: str) -> Template:
    return lambda use: use.cast(use.call(function, *use.arguments))


def _defined(function: str) -> Template:
    """An aggregate of doubles whose NaN, from a division by zero, is null."""
    return lambda use: f"nullif({use.call(function, *use.arguments)}, CAST('nan' AS DOUBLE))"


def _product_of_deviations(function: str) -> Template:
    """A sum of products of deviations. With an infinity among the values it is not a number: DuckDB's own is infinite,
    with a sign that depends on the order of the rows.
    """

    def template(use: Use) -> str:
        value, *means = (use.call(name, *use.arguments) for name in (function, "regr_avgx", "regr_avgy"))
        return use.cast(f"({value} + {' + '.join(f'0 * {mean}' for mean in means)})")

    return template


def _nth(use: Use) -> str:
    x, position = use.arguments
    if not isinstance(use.constant(1), int):
        use.refuse("the position must be a constant")
    return f"list_extract({use.call('list', x)}, {position})"


def _percentile(use: Use) -> str:
    x, fraction = use.arguments
    if not isinstance(use.constant(1), float):
        use.refuse("the fraction must be a constant")
    return use.cast(use.call("quantile_cont", x, fraction))


TABLE: Final[Table] = {
    ("statistics", "array_agg"): Entry(lambda use: use.call("list", *use.arguments)),
    **{("statistics", f"bit_{name}"): Entry(_plain(f"bit_{name}")) for name in ("and", "or", "xor")},
    ("statistics", "corr_or_null"): Entry(_defined("corr")),
    **{("statistics", name): Entry(_product_of_deviations(name)) for name in ("covar_pop", "covar_samp", "regr_sxy")},
    ("statistics", "first_value"): Entry(lambda use: use.call("first", *use.arguments)),
    ("statistics", "last_value"): Entry(lambda use: use.call("last", *use.arguments)),
    ("statistics", "nth_value"): Entry(_nth, note="the position must be a constant"),
    ("statistics", "percentile_cont"): Entry(_percentile, note="the fraction must be a constant"),
    **{
        ("statistics", f"regr_{name}"): Entry(_plain(f"regr_{name}"))
        for name in ("avgx", "avgy", "count", "sxx", "syy")
    },
    **{("statistics", f"regr_{name}"): Entry(_defined(f"regr_{name}")) for name in ("intercept", "r2", "slope")},
}

"""Aggregates: bits, pairs of numbers, values in the order of the aggregate."""

from __future__ import annotations

from typing import Final

from ....ir import types as t
from ..aggregate_functions import MIDDLE
from ..decimals import average, decimal, scaled, unscaled
from ..use import Entry, Table, Template, Use


def _plain(function: str) -> Template:
    return lambda use: use.cast(use.call(function, *use.arguments))


def _correlation(use: Use) -> str:
    """The correlation; null where it is a division by zero."""
    return f"nullif({use.call('corr', *use.arguments)}, CAST('nan' AS DOUBLE))"


def _regression(name: str, *constant: str) -> Template:
    """A measure of a regression line: null for fewer than two pairs, and where one of these sums of squares is 0. With
    an infinity or NaN among the values it is not a number.
    """

    def template(use: Use) -> str:
        tests = [f"{use.call('regr_count', *use.arguments)} < 2"]
        tests += [f"{use.call(squares, *use.arguments)} = 0" for squares in constant]
        value = f"coalesce({use.call(name, *use.arguments)}, CAST('nan' AS DOUBLE))"
        return f"CASE WHEN {' OR '.join(tests)} THEN NULL ELSE {value} END"

    return template


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


def _median_decimal(use: Use) -> str:
    result = decimal(use.result)
    total = f"list_sum({use.call('quantile_disc', use.arguments[0], MIDDLE)})"
    return scaled(f"({unscaled(total, t.Decimal(precision=38, scale=result.scale))} // 2)", result.scale, result)


TABLE: Final[Table] = {
    ("statistics", "array_agg"): Entry(lambda use: use.call("list", *use.arguments)),
    **{("statistics", f"bit_{name}"): Entry(_plain(f"bit_{name}")) for name in ("and", "or", "xor")},
    ("statistics", "avg_cut"): Entry(lambda use: average(use, cut=True)),
    ("statistics", "median_decimal"): Entry(_median_decimal),
    ("statistics", "corr_or_null"): Entry(_correlation),
    **{("statistics", name): Entry(_product_of_deviations(name)) for name in ("covar_pop", "covar_samp", "regr_sxy")},
    ("statistics", "first_value"): Entry(lambda use: use.call("first", *use.arguments)),
    ("statistics", "last_value"): Entry(lambda use: use.call("last", *use.arguments)),
    ("statistics", "nth_value"): Entry(_nth, note="the position must be a constant"),
    ("statistics", "percentile_cont"): Entry(_percentile, note="the fraction must be a constant"),
    **{
        ("statistics", f"regr_{name}"): Entry(_plain(f"regr_{name}"))
        for name in ("avgx", "avgy", "count", "sxx", "syy")
    },
    **{("statistics", name): Entry(_regression(name, "regr_sxx")) for name in ("regr_intercept", "regr_slope")},
    ("statistics", "regr_r2"): Entry(_regression("regr_r2", "regr_sxx", "regr_syy")),
}

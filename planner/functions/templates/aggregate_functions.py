"""Aggregates. A template calls DuckDB's aggregate through `Use.call`, so that it works in a window as well."""

from __future__ import annotations

from typing import Final

from ...ir import types as t
from .arithmetic import OVERFLOW, ROUNDING, overflowing
from .decimals import average
from .named_values import let
from .quantiles import quantile
from .use import Entry, Table, Template, Use

_OVERFLOW: Final = {"overflow": OVERFLOW}
_EXACT: Final = {"overflow": ("ERROR",)}


def _plain(function: str) -> Template:
    return lambda use: use.call(function, *use.arguments)


def _sum(use: Use) -> str:
    """The sum. DuckDB sums integers as HUGEINT, decimals as DECIMAL(38, s), floats as doubles."""
    total = use.call("sum", use.arguments[0])
    if not isinstance(use.result, t.Integer):
        return total
    return overflowing(use.cast(total), total, use.result, use.choices.get("overflow", "ERROR"))


def _sum_or_zero(use: Use) -> str:
    return f"coalesce({_sum(use)}, {use.cast('0')})"


def _average(use: Use) -> str:
    """The average. Of integers it is the exact sum divided by the count, truncated towards zero if the result is an
    integer: DuckDB's own average of integers cannot be put together from parts to the last bit.
    """
    (x,) = use.arguments
    if not isinstance(use.type(0), t.Integer):
        return use.cast(use.call("avg", x))
    total, count = use.call("sum", x), use.call("count", x)
    if isinstance(use.result, t.Integer):
        return use.cast(f"({total} // nullif(CAST({count} AS HUGEINT), 0))")
    return use.cast(f"(CAST({total} AS DOUBLE) / nullif({count}, 0))")


def _count(use: Use) -> str:
    return use.cast(use.call("count", *(use.arguments or ("*",))))


def _any_value(use: Use) -> str:
    return use.call("any_value" if use.choices["ignore_nulls"] == "TRUE" else "first", *use.arguments)


def _product(use: Use) -> str:
    """The product, one for no input. Of integers it is exact, unlike DuckDB's own, which is a double."""
    (x,) = use.arguments
    if not isinstance(use.result, t.Integer):
        return use.cast(f"coalesce({use.call('product', x)}, 1)")
    factors = f"list_filter({use.call('list', f'CAST({x} AS HUGEINT)')}, lambda factor: factor IS NOT NULL)"
    one = "CAST(1 AS HUGEINT)"
    return use.cast(f"coalesce(list_reduce({factors}, lambda left_one, right_one: left_one * right_one, {one}), 1)")


def _spread(function: str) -> Template:
    """A standard deviation or variance. The distribution is an argument in newer plans, an option in older ones."""

    def template(use: Use) -> str:
        *enum, x = use.arguments
        distribution = enum[0] if enum else use.choices.get("distribution", "SAMPLE")
        return use.cast(use.call(f"{function}_{'samp' if distribution == 'SAMPLE' else 'pop'}", x))

    return template


def _correlation(use: Use) -> str:
    return use.cast(use.call("corr", *use.arguments))


MIDDLE: Final = "[0.5, 0.5000000000009095]"
"""The fractions whose values lie around the middle: of an odd number of values both are the one in the middle. The
second fraction is 2**-40 above a half.
"""
_MIDPOINT: Final = "CASE WHEN low = high THEN low ELSE low / 2 + high / 2 END"


def _median(use: Use) -> str:
    """The median, exact also where an approximation would do. Between two integers it is the even one. DuckDB's own
    median loses digits of large integers, and between infinities it is not a number.
    """
    around = use.call("quantile_disc", use.arguments[1], MIDDLE)
    if not isinstance(use.result, t.Integer):
        return use.cast(f"list_reduce({around}, lambda low, high: {_MIDPOINT})")
    total = f"list_sum({around})"
    return use.cast(let(total, lambda total: f"({total} // 2 + ({total} % 2) * abs(({total} // 2) % 2))"))


def _string_agg(use: Use) -> str:
    if not isinstance(use.constant(1), str):
        use.refuse("the separator must be a constant")
    return use.call("string_agg", *use.arguments)


_SPREAD: Final = {"rounding": ROUNDING, "distribution": ("SAMPLE", "POPULATION")}

TABLE: Final[Table] = {
    ("arithmetic", "sum"): Entry(_sum, {**_OVERFLOW, "rounding": ROUNDING}),
    ("arithmetic", "sum0"): Entry(_sum_or_zero, {**_OVERFLOW, "rounding": ROUNDING}),
    ("arithmetic", "avg"): Entry(_average, {**_EXACT, "rounding": ROUNDING}),
    ("arithmetic", "min"): Entry(_plain("min")),
    ("arithmetic", "max"): Entry(_plain("max")),
    ("arithmetic", "product"): Entry(_product, {**_EXACT, "rounding": ROUNDING}),
    ("arithmetic", "std_dev"): Entry(_spread("stddev"), _SPREAD),
    ("arithmetic", "variance"): Entry(_spread("var"), _SPREAD),
    ("arithmetic", "corr"): Entry(_correlation, {"rounding": ROUNDING}),
    ("arithmetic", "mode"): Entry(_plain("mode")),
    ("arithmetic", "median"): Entry(_median, {"rounding": ROUNDING}),
    ("arithmetic", "quantile"): Entry(
        quantile, {"rounding": ROUNDING}, "values that are not numbers have positions from 0"
    ),
    ("arithmetic_decimal", "sum"): Entry(_plain("sum"), _EXACT),
    ("arithmetic_decimal", "sum0"): Entry(_sum_or_zero, _EXACT),
    ("arithmetic_decimal", "avg"): Entry(lambda use: average(use, cut=False), _EXACT),
    ("arithmetic_decimal", "min"): Entry(_plain("min")),
    ("arithmetic_decimal", "max"): Entry(_plain("max")),
    ("unsigned_integers", "sum"): Entry(_sum, _OVERFLOW),
    ("unsigned_integers", "min"): Entry(_plain("min")),
    ("unsigned_integers", "max"): Entry(_plain("max")),
    ("datetime", "min"): Entry(_plain("min")),
    ("datetime", "max"): Entry(_plain("max")),
    ("ordered_values", "min"): Entry(_plain("min")),
    ("ordered_values", "max"): Entry(_plain("max")),
    ("boolean", "bool_and"): Entry(_plain("bool_and")),
    ("boolean", "bool_or"): Entry(_plain("bool_or")),
    ("string", "string_agg"): Entry(_string_agg, note="the separator must be a constant"),
    ("aggregate_generic", "count"): Entry(_count, _EXACT),
    ("aggregate_generic", "any_value"): Entry(_any_value, {"ignore_nulls": ("TRUE", "FALSE")}),
    ("aggregate_approx", "approx_count_distinct"): Entry(_plain("approx_count_distinct")),
    ("aggregate_decimal_output", "count"): Entry(_count, _EXACT),
    ("aggregate_decimal_output", "approx_count_distinct"): Entry(
        lambda use: use.cast(use.call("approx_count_distinct", *use.arguments))
    ),
}

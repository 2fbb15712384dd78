"""Aggregates."""

from __future__ import annotations

from typing import Final

from ... import types as t
from .arithmetic import OVERFLOW, ROUNDING, overflowing
from .decimals import decimal, quotient, unscaled
from .use import Entry, Table, Template, Use

_OVERFLOW: Final = {"overflow": OVERFLOW}


def _plain(function: str) -> Template:
    return lambda use: use.call(function, *use.arguments)


def _sum(use: Use) -> str:
    """DuckDB sums integers as HUGEINT, decimals as DECIMAL(38, s), floats as they are."""
    total = use.call("sum", use.arguments[0])
    if not isinstance(use.result, t.Integer):
        return total
    return overflowing(use.cast(total), total, use.result, use.choices.get("overflow", "ERROR"))


def _average_decimals(use: Use) -> str:
    """Exactly: the sum's digits divided by the count, rounded half away from zero."""
    argument, result = decimal(use.type(0)), decimal(use.result)
    total = t.Decimal(precision=38, scale=argument.scale)
    digits = unscaled(use.call("sum", use.arguments[0]), total)
    count = f"CAST({use.call('count', use.arguments[0])} AS HUGEINT)"
    return quotient(digits, f"nullif({count}, 0)", result.scale - argument.scale, result)


def _average(use: Use) -> str:
    return use.cast(use.call("avg", use.arguments[0]))


def _count(use: Use) -> str:
    return use.call("count", *(use.arguments or ("*",)))


def _any_value(use: Use) -> str:
    return use.call("any_value" if use.choices["ignore_nulls"] == "TRUE" else "first", *use.arguments)


TABLE: Final[Table] = {
    ("arithmetic", "sum"): Entry(_sum, {**_OVERFLOW, "rounding": ROUNDING}),
    ("arithmetic", "avg"): Entry(_average, {"overflow": ("ERROR",), "rounding": ROUNDING}),
    ("arithmetic", "min"): Entry(_plain("min")),
    ("arithmetic", "max"): Entry(_plain("max")),
    ("arithmetic_decimal", "sum"): Entry(_plain("sum"), {"overflow": ("ERROR",)}),
    ("arithmetic_decimal", "avg"): Entry(_average_decimals, {"overflow": ("ERROR",)}),
    ("arithmetic_decimal", "min"): Entry(_plain("min")),
    ("arithmetic_decimal", "max"): Entry(_plain("max")),
    ("datetime", "min"): Entry(_plain("min")),
    ("datetime", "max"): Entry(_plain("max")),
    ("aggregate_generic", "count"): Entry(_count, {"overflow": ("ERROR",)}),
    ("aggregate_generic", "any_value"): Entry(_any_value, {"ignore_nulls": ("TRUE", "FALSE")}),
}

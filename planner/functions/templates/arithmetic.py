"""Arithmetic on integers and floats."""

from __future__ import annotations

from typing import Final

from ... import types as t
from ...sql.types import sql_type
from .use import Entry, Table, Template, Use, let

OVERFLOW: Final = ("ERROR", "SATURATE", "SILENT")
ROUNDING: Final = ("TIE_TO_EVEN",)


def wrapped(sql: str, type_: t.Integer) -> str:
    """A wide value's low bits, as two's complement arithmetic keeps them."""
    size = f"CAST({2**type_.bits} AS HUGEINT)"
    if not type_.signed:
        return f"CAST((({sql}) % {size} + {size}) % {size} AS {sql_type(type_)})"
    half = f"CAST({2 ** (type_.bits - 1)} AS HUGEINT)"
    return f"CAST(((({sql}) + {half}) % {size} + {size}) % {size} - {half} AS {sql_type(type_)})"


def clamped(sql: str, type_: t.Integer) -> str:
    """A wide value, or the nearest one the type has."""
    low = -(2 ** (type_.bits - 1)) if type_.signed else 0
    high = 2 ** (type_.bits - type_.signed) - 1
    inside = let(sql, lambda v: f"CASE WHEN {v} > {high} THEN {high} WHEN {v} < {low} THEN {low} ELSE {v} END")
    return f"CAST({inside} AS {sql_type(type_)})"


def overflowing(exact: str, wide: str, type_: t.Integer, overflow: str) -> str:
    """`exact` fails on overflow by itself; `wide` is the same in a type where it cannot."""
    match overflow:
        case "SATURATE":
            return clamped(wide, type_)
        case "SILENT":
            return wrapped(wide, type_)
        case _:
            return exact


def _operator(symbol: str) -> Template:
    def template(use: Use) -> str:
        x, y = use.arguments
        type_ = use.result
        if not isinstance(type_, t.Integer):
            return f"({x} {symbol} {y})"
        wide_type = "UHUGEINT" if symbol == "*" and not type_.signed else "HUGEINT"
        wide = f"CAST({x} AS {wide_type}) {symbol} CAST({y} AS {wide_type})"
        if wide_type == "UHUGEINT" and use.choices.get("overflow") == "SILENT":
            return f"CAST(({wide}) % CAST({2**type_.bits} AS UHUGEINT) AS {sql_type(type_)})"
        return overflowing(f"({x} {symbol} {y})", wide, type_, use.choices.get("overflow", "ERROR"))

    return template


def _divide(use: Use) -> str:
    x, y = use.arguments
    if isinstance(use.result, t.Integer):
        divisor = f"nullif({y}, 0)" if use.choices["on_division_by_zero"] == "NULL" else y
        wide = f"CAST({x} AS HUGEINT) // CAST({divisor} AS HUGEINT)"
        return overflowing(f"({x} // {divisor})", wide, use.result, use.choices.get("overflow", "ERROR"))
    return let(x, lambda a: let(y, lambda b: _divide_floats(a, b, use)))


def _divide_floats(x: str, y: str, use: Use) -> str:
    domain, zero = use.choices["on_domain_error"], use.choices["on_division_by_zero"]
    guards = []
    if domain != "NAN":
        undefined = f"isnan({x}) OR isnan({y}) OR (isinf({x}) AND isinf({y}))"
        guards.append(f"WHEN {undefined} THEN {_failure(domain, 'division outside its domain')}")
    if zero != "IEEE":
        guards.append(f"WHEN {y} = 0 THEN {_failure(zero, 'division by zero')}")
    quotient = f"({x} / {y})"
    return f"CASE {' '.join(guards)} ELSE {quotient} END" if guards else quotient


def _failure(choice: str, message: str) -> str:
    return f"error('{message}')" if choice == "ERROR" else "NULL"


_INTEGER_OR_FLOAT: Final = {"overflow": OVERFLOW, "rounding": ROUNDING}

TABLE: Final[Table] = {
    ("arithmetic", "add"): Entry(_operator("+"), _INTEGER_OR_FLOAT),
    ("arithmetic", "subtract"): Entry(_operator("-"), _INTEGER_OR_FLOAT),
    ("arithmetic", "multiply"): Entry(_operator("*"), _INTEGER_OR_FLOAT),
    ("arithmetic", "divide"): Entry(
        _divide,
        {
            **_INTEGER_OR_FLOAT,
            "on_domain_error": ("NAN", "NULL", "ERROR"),
            "on_division_by_zero": ("IEEE", "ERROR", "NULL"),
        },
    ),
}

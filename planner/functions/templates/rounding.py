"""Rounding to whole numbers, to decimal places in every direction there is, and to floats of 32 bits."""

from __future__ import annotations

from typing import Final

from ...ir import types as t
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from .decimals import decimal, scaled, unscaled
from .named_values import let, let_all
from .use import Entry, Table, Template, Use

_MODES: Final = (
    "TIE_AWAY_FROM_ZERO",  # the meaning of SQL's round
    "TIE_TO_EVEN",
    "TRUNCATE",
    "CEILING",
    "FLOOR",
    "AWAY_FROM_ZERO",
    "TIE_DOWN",
    "TIE_UP",
    "TIE_TOWARDS_ZERO",
    "TIE_TO_ODD",
)
_LONG: Final = (t.Integer(bits=64), t.Integer(bits=64, nullable=False))
_INFINITE: Final = "CAST('3.4028235677973366e38' AS DOUBLE)"
"""The least double whose nearest float of 32 bits is infinite."""
_UP: Final[dict[str, str]] = {
    "TRUNCATE": "false",
    "CEILING": "{r} > 0",
    "FLOOR": "{r} < 0",
    "AWAY_FROM_ZERO": "{r} <> 0",
    "TIE_AWAY_FROM_ZERO": "2 * abs({r}) >= {f}",
    "TIE_TOWARDS_ZERO": "2 * abs({r}) > {f}",
    "TIE_DOWN": "2 * abs({r}) > {f} OR (2 * abs({r}) = {f} AND {r} < 0)",
    "TIE_UP": "2 * abs({r}) > {f} OR (2 * abs({r}) = {f} AND {r} > 0)",
    "TIE_TO_EVEN": "2 * abs({r}) > {f} OR (2 * abs({r}) = {f} AND {q} % 2 <> 0)",
    "TIE_TO_ODD": "2 * abs({r}) > {f} OR (2 * abs({r}) = {f} AND {q} % 2 = 0)",
}
"""The conditions under which the quotient {q} of a division by {f}, with remainder {r}, goes a step away from zero."""


def _multiple(n: str, f: str, mode: str) -> str:
    """The HUGEINT `n` rounded to a multiple of the HUGEINT `f`."""

    def rounded(value: str, factor: str) -> str:
        up = _UP[mode].format(r=f"({value} % {factor})", f=factor, q=f"({value} // {factor})")
        return f"({value} - {value} % {factor} + CASE WHEN {up} THEN sign({value}) * {factor} ELSE 0 END)"

    return let(n, lambda value: let(f, lambda factor: rounded(value, factor)))


def _power_of_ten(exponent: str) -> str:
    """10**exponent as a HUGEINT, at most 10**38. A negative exponent has no power and never gets here."""

    def power(e: str) -> str:
        zeros = f"repeat('0', CAST(CASE WHEN {e} > 38 THEN 38 ELSE {e} END AS BIGINT))"
        return f"CAST(CAST('1' || {zeros} AS VARCHAR) AS HUGEINT)"

    return let(exponent, power)


def _round(use: Use) -> str:
    return let_all(use.arguments, lambda values: _rounded(values[0], values[1], use))


def _rounded(x: str, digits: str, use: Use) -> str:
    mode = use.choices["rounding"]
    match use.result:
        case t.Integer():
            wide = f"CAST({x} AS HUGEINT)"
            whole = _multiple(wide, _power_of_ten(f"-{_places(digits, use)}"), mode)
            return use.cast(f"CASE WHEN {digits} >= 0 THEN {wide} ELSE {whole} END")
        case t.Decimal():
            return rounded_decimal(x, digits, use, mode)
        case _:
            return use.cast(_round_float(x, digits, mode))


def _places(digits: str, use: Use) -> str:
    """The number of places, of a type that has its negation."""
    return f"CAST({digits} AS {'HUGEINT' if use.type(1) in _LONG else 'BIGINT'})"


def rounded_decimal(x: str, digits: str, use: Use, mode: str) -> str:
    """A use's decimal `x`, exactly rounded to so many places in a direction, as the use's result."""
    argument, result = decimal(use.type(0)), decimal(use.result)
    drop = f"({argument.scale} - {_places(digits, use)})"
    exact = unscaled(x, argument)
    whole = _multiple(exact, _power_of_ten(drop), mode)
    known = use.constant(1)
    if isinstance(known, int) and known <= result.scale < argument.scale:  # the greatest value may get a digit
        return scaled(f"({whole} // {10 ** (argument.scale - result.scale)})", result.scale, result)
    return scaled(f"CASE WHEN {drop} <= 0 THEN {exact} ELSE {whole} END", argument.scale, result)


def _round_float(x: str, digits: str, mode: str) -> str:
    factor = f"pow(10.0::DOUBLE, {digits})"
    y = f"({x} * {factor})"
    match mode:
        case "TIE_AWAY_FROM_ZERO":
            return f"round({x}, {digits})"
        case "TRUNCATE":
            return f"trunc{y} / {factor}"
        case "CEILING":
            return f"ceil{y} / {factor}"
        case "FLOOR":
            return f"floor{y} / {factor}"
        case "AWAY_FROM_ZERO":
            return f"sign({x}) * ceil(abs{y}) / {factor}"
        case "TIE_DOWN":
            return f"ceil({y} - 0.5) / {factor}"
        case "TIE_UP":
            return f"floor({y} + 0.5) / {factor}"
        case "TIE_TOWARDS_ZERO":
            return f"sign({x}) * ceil(abs{y} - 0.5) / {factor}"
        case _:
            keep = "= 0" if mode == "TIE_TO_EVEN" else "<> 0"
            tie = f"CASE WHEN trunc{y} % 2 {keep} THEN trunc{y} ELSE trunc{y} + sign({x}) END"
            return f"CASE WHEN abs({y} - trunc{y}) = 0.5 THEN {tie} ELSE round({y}, 0) END / {factor}"


def rounded_float(sql: str, result: Type) -> str:
    """A double as the result's type. One that is too large for 32 bits is infinite; DuckDB's own cast fails."""
    if not isinstance(result, t.Float) or result.bits != 32:
        return f"CAST({sql} AS {sql_type(result)})"

    def narrowed(x: str) -> str:
        high, low = (f"CAST('{sign}inf' AS FLOAT)" for sign in ("", "-"))
        within = f"CAST({x} AS FLOAT)"
        beyond = f"WHEN {x} >= {_INFINITE} THEN {high} WHEN {x} <= -{_INFINITE} THEN {low}"
        return f"CASE WHEN isnan({x}) THEN {within} {beyond} ELSE {within} END"

    return let(sql, narrowed)


def _whole(function: str) -> Template:
    return lambda use: use.cast(f"{function}({use.arguments[0]})")


TABLE: Final[Table] = {
    ("rounding", "ceil"): Entry(_whole("ceil")),
    ("rounding", "floor"): Entry(_whole("floor")),
    ("rounding", "round"): Entry(_round, {"rounding": _MODES}),
    ("rounding_decimal", "ceil"): Entry(_whole("ceil")),
    ("rounding_decimal", "floor"): Entry(_whole("floor")),
    ("rounding_decimal", "round"): Entry(_round, {"rounding": _MODES}),
}

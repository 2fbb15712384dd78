"""Numbers: roots, divisors, quotients, numbers without their fraction, and floats as texts."""

from __future__ import annotations

from typing import Final

from ....ir import types as t
from ..arithmetic import shift_left_wrapped, shift_right_wrapped
from ..decimals import decimal, exact, quotient_cut, quotient_fits, unscaled
from ..named_values import let, let_all
from ..rounding import rounded_decimal, rounded_float
from ..use import Entry, Table, Template, Use


def _call(function: str) -> Template:
    return lambda use: rounded_float(f"{function}({', '.join(use.arguments)})", use.result)


def _trunc(use: Use) -> str:
    x, *digits = use.arguments
    if not digits:
        return use.cast(f"trunc({x})")
    if isinstance(use.type(0), t.Decimal):
        return let_all(use.arguments, lambda values: rounded_decimal(values[0], values[1], use, "TRUNCATE"))
    return let_all(
        (x, f"pow(10.0::DOUBLE, {digits[0]})"), lambda values: f"(trunc({values[0]} * {values[1]}) / {values[1]})"
    )


def _nanvl(use: Use) -> str:
    x, other = use.arguments
    return let(x, lambda v: f"CASE WHEN isnan({v}) THEN {other} ELSE {v} END")


def _divide_cut(use: Use) -> str:
    x, y, result = decimal(use.type(0)), decimal(use.type(1)), decimal(use.result)
    shift = result.scale + y.scale - x.scale
    return exact(
        use,
        "cut",
        lambda v: quotient_fits(v, (x, y), shift, result.scale),
        lambda v: quotient_cut(unscaled(v[0], x), unscaled(v[1], y), shift, result),
    )


def _single(use: Use) -> str:
    return rounded_float(use.arguments[0], use.result)


_FLOAT_FIXED: Final = ("1e13", "1e16")
"""From here to there DuckDB writes floats of 32 bits without an exponent, Rust with one."""


def _float_text(use: Use) -> str:
    """DuckDB's text has the same digits. Rust writes no `+` and no leading zeros in an exponent."""
    is_single = use.type(0) == t.nullable(t.Float(bits=32)) or use.type(0) == t.Float(bits=32, nullable=False)

    def text(x: str) -> str:
        plain = f"CAST({x} AS VARCHAR)"
        short = f"replace(replace({plain}, 'e+', 'e'), 'e-0', 'e-')"
        if is_single:
            low, high = _FLOAT_FIXED
            digits = f"rtrim(split_part(ltrim({plain}, '-'), '.', 1), '0')"
            sign = f"CASE WHEN {x} < 0 THEN '-' ELSE '' END"
            fraction = f"CASE WHEN length({digits}) > 1 THEN '.' || substring({digits}, 2) ELSE '' END"
            exponent = f"length(split_part(ltrim({plain}, '-'), '.', 1)) - 1"
            large = f"({sign} || left({digits}, 1) || {fraction} || 'e' || ({exponent}))"
            mantissa = f"replace(ltrim(split_part({plain}, 'e', 1), '-'), '.', '')"
            small = f"({sign} || '0.00000' || {mantissa})"
            size = f"abs(CAST({x} AS DOUBLE))"
            short = (
                f"CASE WHEN {size} >= {low} AND {size} < {high} THEN {large}"
                f" WHEN {plain} LIKE '%e-06' THEN {small} ELSE {short} END"
            )
        return f"CASE WHEN isnan({x}) THEN 'NaN' ELSE {short} END"

    return let(use.arguments[0], text)


TABLE: Final[Table] = {
    ("numbers", "cbrt"): Entry(_call("cbrt")),
    ("numbers", "cot"): Entry(_call("cot")),
    ("numbers", "divide_cut"): Entry(_divide_cut),
    ("numbers", "float_text"): Entry(_float_text),
    ("numbers", "shift_left_wrapped"): Entry(shift_left_wrapped),
    ("numbers", "shift_right_wrapped"): Entry(shift_right_wrapped),
    ("numbers", "single"): Entry(_single),
    ("numbers", "gcd"): Entry(_call("gcd")),
    ("numbers", "lcm"): Entry(_call("lcm")),
    ("numbers", "iszero"): Entry(lambda use: f"({use.arguments[0]} = 0)"),
    ("numbers", "nanvl"): Entry(_nanvl),
    ("numbers", "trunc"): Entry(_trunc),
}

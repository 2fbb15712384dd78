"""Numbers: roots, divisors, and numbers without their fraction."""

from __future__ import annotations

from typing import Final

from ..use import Entry, Table, Template, Use, let, let_all


def _call(function: str) -> Template:
    return lambda use: use.cast(f"{function}({', '.join(use.arguments)})")


def _trunc(use: Use) -> str:
    x, *digits = use.arguments
    if not digits:
        return use.cast(f"trunc({x})")
    return let_all(
        (x, f"pow(10.0::DOUBLE, {digits[0]})"), lambda values: f"(trunc({values[0]} * {values[1]}) / {values[1]})"
    )


def _nanvl(use: Use) -> str:
    x, other = use.arguments
    return let(x, lambda v: f"CASE WHEN isnan({v}) THEN {other} ELSE {v} END")


TABLE: Final[Table] = {
    ("numbers", "cbrt"): Entry(_call("cbrt")),
    ("numbers", "cot"): Entry(_call("cot")),
    ("numbers", "gcd"): Entry(_call("gcd")),
    ("numbers", "lcm"): Entry(_call("lcm")),
    ("numbers", "iszero"): Entry(lambda use: f"({use.arguments[0]} = 0)"),
    ("numbers", "nanvl"): Entry(_nanvl),
    ("numbers", "trunc"): Entry(_trunc),
}

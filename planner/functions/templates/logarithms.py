"""Logarithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .arithmetic import ROUNDING
from .named_values import let
from .use import Entry, Table, Template, Use, error

_OPTIONS: Final = {
    "rounding": ROUNDING,
    "on_domain_error": ("NAN", "NULL", "ERROR"),
    "on_log_zero": ("MINUS_INFINITY", "NAN", "ERROR"),
}
_FAILURES: Final[dict[str, str]] = {"NAN": "CAST('nan' AS DOUBLE)", "NULL": "NULL"}


def _guarded(use: Use, x: str, logarithm: Callable[[str], str]) -> str:
    """A logarithm with the chosen behaviour outside its domain. DuckDB gives NaN below zero and minus infinity
    at zero.
    """
    domain, zero = use.choices["on_domain_error"], use.choices["on_log_zero"]

    def guards(v: str) -> str:
        clauses = []
        if domain != "NAN":
            failure = _FAILURES.get(domain) or error(f"{use.name} of a negative number")
            clauses.append(f"WHEN {v} < 0 THEN {failure}")
        if zero != "MINUS_INFINITY":
            clauses.append(f"WHEN {v} = 0 THEN {_FAILURES.get(zero) or error(f'{use.name} of zero')}")
        return f"CASE {' '.join(clauses)} ELSE {logarithm(v)} END" if clauses else logarithm(v)

    return use.cast(let(f"CAST({x} AS DOUBLE)", guards))


def _plain(function: str) -> Template:
    return lambda use: _guarded(use, use.arguments[0], lambda v: f"{function}({v})")


def _with_base(use: Use) -> str:
    """A logarithm with a base. The official test cases have the base first, whatever the parameters are called."""
    base, x = use.arguments
    return _guarded(use, x, lambda v: f"(ln({v}) / ln(CAST({base} AS DOUBLE)))")


def _of_one_plus(use: Use) -> str:
    """The logarithm of 1 + x, accurate near zero, where 1 + x has lost x's digits: the error of the sum cancels out."""
    (argument,) = use.arguments

    def logarithm(x: str) -> str:
        return f"CASE WHEN 1 + {x} = 1 THEN {x} WHEN isinf({x}) THEN {x} ELSE ln(1 + {x}) * {x} / ((1 + {x}) - 1) END"

    def guards(x: str) -> str:
        return _guarded(use, f"(1 + {x})", lambda _: logarithm(x))

    return let(f"CAST({argument} AS DOUBLE)", guards)


TABLE: Final[Table] = {
    ("logarithmic", "ln"): Entry(_plain("ln"), _OPTIONS),
    ("logarithmic", "log10"): Entry(_plain("log10"), _OPTIONS),
    ("logarithmic", "log2"): Entry(_plain("log2"), _OPTIONS),
    ("logarithmic", "logb"): Entry(
        _with_base, _OPTIONS, "the base comes first, as in the official cases; the extension's text has it second"
    ),
    ("logarithmic", "log1p"): Entry(_of_one_plus, _OPTIONS),
}

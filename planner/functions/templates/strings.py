"""Strings."""

from __future__ import annotations

from typing import Final

from .use import Entry, Table, Template, Use, error, let

CASES: Final = ("CASE_SENSITIVE", "CASE_INSENSITIVE")
_CASE: Final = {"case_sensitivity": CASES}


def folded(use: Use, sql: str) -> str:
    """An argument as the chosen case sensitivity compares it."""
    return sql if use.choices.get("case_sensitivity", "CASE_SENSITIVE") == "CASE_SENSITIVE" else f"lower({sql})"


def _like(use: Use) -> str:
    """No character escapes another in Substrait's pattern, nor in DuckDB's LIKE without an ESCAPE clause."""
    return f"({folded(use, use.arguments[0])} LIKE {folded(use, use.arguments[1])})"


def _test(function: str) -> Template:
    return lambda use: f"{function}({folded(use, use.arguments[0])}, {folded(use, use.arguments[1])})"


def _substring(use: Use) -> str:
    x, start, *rest = use.arguments
    count = rest[0] if rest else None
    match use.choices.get("negative_start", "WRAP_FROM_END"):
        case "LEFT_OF_BEGINNING":
            return let(start, lambda s: _from_left(x, s, count))
        case "ERROR":
            checked = let(
                start, lambda s: f"CASE WHEN {s} < 0 THEN {error('substring with a negative start')} ELSE {s} END"
            )
            return _from_left(x, checked, count) if count is None else let(checked, lambda s: _from_left(x, s, count))
        case _:
            return f"substring({', '.join(use.arguments)})"


def _from_left(x: str, start: str, count: str | None) -> str:
    """What of the window [start, start + count) lies on the string, whose first character is 1."""
    if count is None:
        return f"substring({x}, greatest({start}, 1))"
    return f"substring({x}, greatest({start}, 1), greatest({start} + {count} - greatest({start}, 1), 0))"


TABLE: Final[Table] = {
    ("string", "like"): Entry(_like, _CASE),
    ("string", "contains"): Entry(_test("contains"), _CASE),
    ("string", "starts_with"): Entry(_test("starts_with"), _CASE),
    ("string", "ends_with"): Entry(_test("ends_with"), _CASE),
    ("string", "substring"): Entry(_substring, {"negative_start": ("WRAP_FROM_END", "LEFT_OF_BEGINNING", "ERROR")}),
}

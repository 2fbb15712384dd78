"""Window functions that are not aggregates."""

from __future__ import annotations

from typing import Final

from .use import Entry, Table, Template, Use, error

RANKING: Final = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lead", "lag"})
"""Functions of the whole partition, which take no frame."""


def _function(name: str) -> Template:
    return lambda use: use.cast(use.call(name, *use.arguments))


def _nth_value(use: Use) -> str:
    """The value at a position of the frame. The value is null beyond the frame; a position below one is an error."""
    position = use.arguments[1]
    value = use.cast(use.call("nth_value", *use.arguments))
    constant = use.constant(1)
    if isinstance(constant, int) and constant > 0:
        return value
    return f"CASE WHEN {position} < 1 THEN {error('nth_value of a position below 1')} ELSE {value} END"


TABLE: Final[Table] = {
    **{("arithmetic", name): Entry(_function(name)) for name in sorted(RANKING)},
    ("arithmetic", "first_value"): Entry(_function("first_value")),
    ("arithmetic", "last_value"): Entry(_function("last_value")),
    ("statistics", "last_not_null"): Entry(
        lambda use: use.cast(use.call("last_value", f"{use.arguments[0]} IGNORE NULLS"))
    ),
    ("arithmetic", "nth_value"): Entry(_nth_value, {"on_domain_error": ("ERROR",)}),
}

"""Calls of DuckDB's aggregates, of all rows or of those that meet a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_LEAVE_NULLS_OUT: Final = frozenset(
    [
        *("sum", "count", "avg", "min", "max", "any_value", "bool_and", "bool_or"),
        *("stddev_samp", "stddev_pop", "var_samp", "var_pop", "bit_and", "bit_or", "bit_xor", "median", "mode"),
    ]
)


def aggregate_call(
    name: str, arguments: Sequence[str], condition: str | None, *, distinct: str = "", order: str = ""
) -> str:
    """The aggregate over the rows that meet the condition.

    DuckDB copies all columns of an aggregation for each FILTER in it, so that their time grows with the second power of
    their number. An aggregate that leaves nulls out reads a null in place of each other row's value.
    """
    if condition is not None and len(arguments) == 1 and name in _LEAVE_NULLS_OUT:
        value = "1" if arguments[0] == "*" else arguments[0]
        return f"{name}({distinct}CASE WHEN {condition} THEN {value} END{order})"
    where = "" if condition is None else f" FILTER (WHERE {condition})"
    return f"{name}({distinct}{', '.join(arguments)}{order}){where}"

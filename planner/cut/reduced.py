"""Finds aggregates that NumPy can compute instead of SQL: sums, minima and maxima."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from .. import ir

Reducing: TypeAlias = Literal["count", "sum", "min", "max"]

_NAMES: Final[dict[str, Reducing]] = {"sum": "sum", "min": "min", "max": "max"}
_REDUCED: Final = ("functions_arithmetic", "functions_arithmetic_decimal", "functions_datetime")


def reducing(measure: ir.Measure) -> tuple[Reducing, ir.Expression | None] | None:
    """A plain count, sum, minimum or maximum, and its argument; a count of nothing counts rows. An option about
    overflow changes nothing: a reduction answers only if nothing overflows.
    """
    if measure.distinct or measure.sorts or measure.condition is not None:
        return None
    urn, name = measure.function.urn, measure.function.name
    counts = name == "count" and urn.endswith("functions_aggregate_generic")
    match measure.arguments:
        case ():
            return ("count", None) if counts else None
        case (argument,) if not isinstance(argument, str):
            if counts:
                return "count", argument
            known = _NAMES.get(name) if urn.endswith(_REDUCED) else None
            return None if known is None else (known, argument)
        case _:
            return None

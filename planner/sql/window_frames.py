"""Frames of window functions as DuckDB's SQL."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..ir import types as t
from .literal_sql import literal


def wide_sorts(call: ir.WindowCall) -> Sequence[ir.SortKey]:
    """The sort keys. Where the frame's bounds are values, DuckDB adds the offsets to an integer key: as a wider one, no
    sum overflows.
    """
    by_value = call.bounds is ir.BoundsKind.RANGE and any(one.offset for one in (call.lower, call.upper))
    if not by_value or len(call.sorts) != 1 or not isinstance(call.sorts[0].expression.type, t.Integer):
        return call.sorts
    (sort,) = call.sorts
    wide = ir.Cast(
        operand=sort.expression, type=t.Decimal(precision=38, scale=0, nullable=sort.expression.type.nullable)
    )
    return (replace(sort, expression=wide),)


def bound(of: ir.Bound, unbounded: str) -> str:
    """A frame's bound; `unbounded` is the direction of a bound without an offset."""
    match of.offset:
        case None:
            return f"UNBOUNDED {unbounded}"
        case 0:
            return "CURRENT ROW"
        case int(offset):
            return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
        case ir.Literal(value=tuple(parts), type=type_):
            how = "PRECEDING" if any(part < 0 for part in parts) else "FOLLOWING"
            return f"{literal(tuple(map(abs, parts)), type_)} {how}"
        case ir.Literal(value=float() | decimal.Decimal() as value, type=type_):
            return f"{literal(abs(value), type_)} {'PRECEDING' if value < 0 else 'FOLLOWING'}"
        case _:
            raise TypeError(f"a frame's bound is a literal, not {of.offset!r}")

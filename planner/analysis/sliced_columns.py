"""Slices of a column of times, which operators number themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .. import ir
from ..ir import types as t
from ..ir.arrow_types import digits, parts_of_tick
from ..ir.visit import is_column

_FARTHEST: Final = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedColumn:
    """Slices of `size` units of a column's Arrow type, of which slice 0 begins at `origin`."""

    column: ir.Field
    size: int
    origin: int


def sliced_column(slice_: ir.Expression) -> SlicedColumn | None:
    """The column whose slices these are; None for other numbers, and for times that DuckDB has in finer units."""
    if not isinstance(slice_, ir.Call) or slice_.function.name != "time_slice":
        return None
    column, size, origin = slice_.arguments
    if not is_column(column) or not isinstance(size, ir.Literal) or not isinstance(origin, ir.Literal):
        return None
    units = _units(column.type)
    if units is None or not isinstance(size.value, int) or not isinstance(origin.value, int):
        return None
    if max(size.value, abs(origin.value)) * units > _FARTHEST:
        return None
    return SlicedColumn(column=column, size=size.value * units, origin=origin.value * units)


def _units(type_: t.Type) -> int | None:
    """The units of the column's Arrow type in a unit of the plan's type."""
    match type_:
        case t.Timestamp() | t.TimestampTz():
            units = parts_of_tick(type_)
            return units if units == 10 ** (digits(type_) - type_.precision) else None
        case t.Date() | t.Integer():
            return 1
        case _:
            return None

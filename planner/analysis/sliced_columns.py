"""Slices of a column of times, and the moments at which slices begin, which operators compute without SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...operators.core.column import Slices
from .. import ir
from ..ir import types as t
from ..ir.arrow_types import digits, parts_of_tick, unit
from ..ir.building import INT64
from ..ir.visit import is_column

_FARTHEST: Final = 1 << 60
_FARTHEST_MOMENT: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedColumn:
    """Slices of `size` units of a column's Arrow type, of which slice 0 begins at `origin`."""

    column: ir.Field
    size: int
    origin: int

    @property
    def slices(self) -> Slices:
        return Slices(self.size, self.origin)


def sliced_column(slice_: ir.Expression) -> SlicedColumn | None:
    """The column whose slices these are; None for other numbers, and for times that DuckDB has in finer units."""
    if not isinstance(slice_, ir.Call) or slice_.function.name != "time_slice":
        return None
    column, size, origin = slice_.arguments
    units = _units(column.type) if is_column(column) else None
    lengths = None if units is None else _lengths(size, origin, units)
    if not is_column(column) or lengths is None or not _are_near(*lengths):
        return None
    return SlicedColumn(column=column, size=lengths[0], origin=lengths[1])


def _lengths(size: ir.Expression | str, origin: ir.Expression | str, units: int) -> tuple[int, int] | None:
    """The length of slices and the beginning of slice 0 in these units; None if they are no constants."""
    match size, origin:
        case ir.Literal(value=int(long)), ir.Literal(value=int(first)):
            return long * units, first * units
        case _:
            return None


def _are_near(size: int, origin: int) -> bool:
    return max(size, abs(origin)) <= _FARTHEST


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceBeginning:
    """The moment at which the slice of this number begins, in units of its Arrow type. A slice is `size` units long,
    and slice 0 begins at `origin`. DuckDB has all moments that are at most `farthest` units from 0.
    """

    number: ir.Expression
    size: int
    origin: int
    farthest: int

    @property
    def slices(self) -> Slices:
        return Slices(self.size, self.origin)

    @property
    def is_near(self) -> bool:
        """Tests whether operators can compute it in 64 bits."""
        return _are_near(self.size, self.origin)


def slice_beginning(moment: ir.Expression) -> SliceBeginning | None:
    """The beginning of a slice that this moment is; None for other values."""
    if not isinstance(moment, ir.Call) or moment.function.name != "slice_start":
        return None
    number, size, origin = moment.arguments
    farthest, lengths = _farthest_moment(moment.type), _lengths(size, origin, parts_of_tick(moment.type))
    if isinstance(number, str) or t.required(number.type) != t.required(INT64) or farthest is None or lengths is None:
        return None
    return SliceBeginning(number=number, size=lengths[0], origin=lengths[1], farthest=farthest)


def _farthest_moment(type_: t.Type) -> int | None:
    """A number of units of the type's Arrow type: DuckDB has all moments that are not farther from 0. None for types
    that have no moments.
    """
    match type_:
        case t.Date():
            return 2**31 - 3
        case t.Timestamp() | t.TimestampTz():
            return _FARTHEST_MOMENT // {"s": 1_000_000, "ms": 1_000}.get(unit(type_), 1)
        case t.Integer(bits=bits, signed=True):
            return min((1 << (bits - 1)) - 1, _FARTHEST_MOMENT)
        case _:
            return None

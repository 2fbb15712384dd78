"""PackedKeyDomain: a number for each row of whole numbers that are close together: the row's place in the domain.

Places are in canonical order, so that rows are sorted and counted as single numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..values.change import Numbers
from ..values.rows import Rows
from ..values.value_columns import Column, FixedColumn, Mask, empty_column

_LEAST: Final = -(1 << 63)
_END: Final = 1 << 63
WORD_BITS: Final = 63

_Range: TypeAlias = tuple[int, int]
"""The least value, and the largest."""


@dataclass(frozen=True, slots=True)
class PackedKeyDomain:
    """The domain of all rows whose column i is one of the 2 ** bits[i] values from lows[i] on. All values are 64-bit
    integers.
    """

    lows: tuple[int, ...]
    bits: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]

    @classmethod
    def around(cls, rows: Rows, also: Sequence[_Range] = ()) -> Self | None:
        """The smallest domain of these rows, of which there is at least one; None where they are not whole numbers, or
        lie too far apart for a word. The last columns may `also` have values in these ranges.
        """
        ranges = _ranges(rows)
        if ranges is None:
            return None
        for at, (least, most) in enumerate(also, len(ranges) - len(also)):
            ranges[at] = min(ranges[at][0], least), max(ranges[at][1], most)
        return cls._of(rows, ranges, [low for low, _ in ranges])

    def extended(self, rows: Rows) -> Self | None:
        """A domain of this domain's rows and these rows: at least twice as large on the sides where it has to be
        larger.
        """
        ranges = _ranges(rows)
        if ranges is None:
            return None
        both, lows = [], []
        for (least, most), low, bits in zip(ranges, self.lows, self.bits, strict=True):
            both.append((min(least, low), max(most, low + (1 << bits) - 1)))
            extent = 1 << (both[-1][1] - both[-1][0]).bit_length()
            lows.append(low if least >= low else max(both[-1][1] + 1 - extent, _LEAST))
        return self._of(rows, both, lows)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 << bits for bits in self.bits)

    @property
    def size(self) -> int:
        return 1 << sum(self.bits)

    def positions(self, rows: Rows) -> Numbers | None:
        """The place of each row, in a new array; None if any row has none."""
        positions: Numbers | None = None
        for column, low, bits in zip(rows.columns, self.lows, self.bits, strict=True):
            values = whole(column)
            if values is None:
                return None
            offsets = values - low
            # A value below `low` is, as an unsigned number, above all others.
            if np.maximum.reduce(offsets.view(np.uint64)) >> bits:
                return None
            if positions is None:
                positions = offsets
            else:
                positions <<= bits
                positions |= offsets
        return positions

    def inside(self, rows: Rows) -> Mask | None:
        """True for each of these rows of whole numbers that has a place; None if all do."""
        inside: Mask | None = None
        for column, low, bits in zip(rows.columns, self.lows, self.bits, strict=True):
            values = whole(column)
            assert values is not None
            offsets = (values - low).view(np.uint64)
            if np.maximum.reduce(offsets, initial=0) >> bits:
                fits = offsets >> bits == 0
                inside = fits if inside is None else inside & fits
        return inside

    def rows(self, positions: Numbers) -> Rows:
        """The rows at these places."""
        columns: list[Column] = []
        left = positions
        for number in reversed(range(len(self.lows))):
            bits = self.bits[number]
            offsets = left & ((1 << bits) - 1) if number else left
            values = offsets + self.lows[number]
            columns.append(FixedColumn(values.astype(self.dtypes[number], copy=False)))
            left = left >> bits if number else left
        return Rows(columns[::-1], len(positions))

    @classmethod
    def _of(cls, rows: Rows, ranges: list[_Range], lows: list[int]) -> Self | None:
        bits = [(most - low).bit_length() for (_, most), low in zip(ranges, lows, strict=True)]
        if sum(bits) > WORD_BITS or any(low + (1 << bit) > _END for low, bit in zip(lows, bits, strict=True)):
            return None
        dtypes = tuple(column.values.dtype for column in rows.columns if isinstance(column, FixedColumn))
        return cls(tuple(lows), tuple(bits), dtypes)


def packable(type_: pa.DataType) -> bool:
    """True where a column of this type consists of whole numbers of 64 bits, nulls apart."""
    values = empty_column(type_)
    return isinstance(values, FixedColumn) and whole(values) is not None


def whole(column: Column) -> npt.NDArray[np.int64] | None:
    """A column's values as 64-bit integers; None where some are null, or not whole numbers."""
    if not isinstance(column, FixedColumn) or column.nulls() is not None:
        return None
    values = column.values
    if values.dtype == np.int64:
        return values
    if values.dtype.kind == "i" or (values.dtype.kind == "u" and values.dtype.itemsize < 8):
        return values.astype(np.int64)
    return None


def _ranges(rows: Rows) -> list[_Range] | None:
    if not rows.columns or not len(rows):
        return None
    ranges = []
    for column in rows.columns:
        values = whole(column)
        if values is None:
            return None
        ranges.append((int(np.minimum.reduce(values)), int(np.maximum.reduce(values))))
    return ranges

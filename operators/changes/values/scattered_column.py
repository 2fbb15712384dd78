"""Scattered columns: long values that lie in several arrays and stay there.

Where all rows of an epoch or of a key are needed in one order, a copy of all of them would be in memory beside them. A
scattered column is read where its values lie; only the values that are taken are copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...arrays.hashing import Hashes, hash_array
from ...core.wide_rows import are_wide, wide_pool
from .value_columns import ArrowColumn, Column, Index, Mask

_AT_ONCE: Final = 8 << 20
"""About the bytes of values that are gathered at once."""
_SLICED: Final = 16 << 10
"""From so many bytes on, a value is cheaper as a slice of its own than in two copies."""


class ScatteredColumn(ArrowColumn):
    """The values of columns that lie one behind the other."""

    __slots__ = ("_ends",)

    def __init__(self, parts: Sequence[pa.Array]) -> None:
        super().__init__(pa.chunked_array(parts, type=parts[0].type))
        self._ends = np.cumsum([len(part) for part in parts])

    @property
    def arrays(self) -> list[pa.Array]:
        arrays: list[pa.Array] = self.array.chunks
        return arrays

    def take(self, rows: Index | Mask | slice) -> ArrowColumn:
        if isinstance(rows, slice):
            chunks = self.array[rows].chunks
            return ScatteredColumn(chunks) if len(chunks) > 1 else ArrowColumn(chunks[0] if chunks else self._none())
        at: Index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        if not len(at):
            return ArrowColumn(self._none())
        size = self.nbytes // max(len(self), 1)
        if size >= _SLICED and len(slices := self._slices(at)) > 1:  # one slice would keep all of its array
            return ArrowColumn(_joined(slices))
        step = max(_AT_ONCE // max(size, 1), 1)
        return ArrowColumn(_joined([self._gathered(at[start : start + step]) for start in range(0, len(at), step)]))

    def hashes(self) -> Hashes:
        return np.concatenate([hash_array(array) for array in self.arrays])

    def to_arrow(self, type_: pa.DataType) -> pa.Array:
        return ArrowColumn(_joined(self.arrays)).to_arrow(type_)

    def _none(self) -> pa.Array:
        return self.arrays[0][:0]

    def _slices(self, at: Index) -> list[pa.Array]:
        """The values, neighbours together, where they lie."""
        arrays, ends = self.arrays, self._ends
        number = ends.searchsorted(at, side="right")
        starts = np.flatnonzero((np.diff(at) != 1) | (np.diff(number) != 0)) + 1
        slices = []
        for first, last in pairwise([0, *starts.tolist(), len(at)]):
            array = arrays[number[first]]
            slices.append(array.slice(int(at[first]) - int(ends[number[first]]) + len(array), last - first))
        return slices

    def _gathered(self, at: Index) -> pa.Array:
        arrays, ends = self.arrays, self._ends
        number = ends.searchsorted(at, side="right")
        order = number.argsort(kind="stable")
        at, number = at.take(order), number.take(order)
        bounds = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(at)]
        taken = []
        for first, last in pairwise(bounds):
            array = arrays[number[first]]
            local = at[first:last] - (int(ends[number[first]]) - len(array))
            taken.append(_taken(array, local))
        together = _joined(taken)
        if np.count_nonzero(np.diff(order) != 1) == 0:
            return together
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return _taken(together, back)


def is_wide(columns: Sequence[Column]) -> bool:
    """True where columns hold values that are better left where they are."""
    arrays = [column.array for column in columns if isinstance(column, ArrowColumn)]
    return len(arrays) == len(columns) > 1 and are_wide(arrays, sum(map(len, arrays)))


def has_wide(columns: Sequence[Column], count: int) -> bool:
    """True where so many rows of these columns have wide values."""
    return any(isinstance(one, ArrowColumn) and are_wide(one.arrays, count) for one in columns)


def scattered(columns: Sequence[Column]) -> ArrowColumn:
    return ScatteredColumn([array for one in columns if isinstance(one, ArrowColumn) for array in one.arrays])


def _taken(array: pa.Array, at: Index) -> pa.Array:
    return pc.take(array, pa.array(at), memory_pool=wide_pool([array], len(at)))


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays, memory_pool=wide_pool(arrays, sum(map(len, arrays))))

"""Takes the rows of a window's parts in their shuffled order. Each row is copied as few times as its width allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..order.large_columns import as_one, taken_of
from ..order.reused_memory import ReusedMemory
from ..order.shuffle import Positions

Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""The rows of one column, in memory of the loader or of the engine."""
Columns: TypeAlias = Sequence[Sequence[Any]]
"""Columns in their parts."""

WORTH_BYTES: Final = 1 << 20
"""Smaller windows are gathered column by column: a call of Arrow costs more."""
WIDE_BYTES: Final = 256
"""Rows from this width on are copied one by one. Narrower ones are joined first, in memory that is in the cache."""
_MOST_SHORT: Final = 1 << 32
"""The most rows of a window whose positions take four bytes."""
_BITS: Final = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}
"""The types as which Arrow gathers numbers of so many bytes."""


class RowGathering:
    """Gathers rows of columns, for one thread. Keeps the memory in which narrow rows are joined, and that of wide
    columns that nobody has any more.
    """

    def __init__(self) -> None:
        self._joined = np.empty(0, np.uint8)
        self.arrays = ReusedMemory()
        """The memory of columns that are gathered."""

    def all_taken(self, columns: Columns, positions: Positions | slice) -> tuple[Values, ...]:
        """The rows of each column at these positions, as `taken` gives them. One call of Arrow gathers all columns of
        numbers, without the interpreter's lock.
        """
        size = sum(size_of(values) for parts in columns for values in parts)
        if isinstance(positions, slice) or size < WORTH_BYTES:
            return tuple(self.taken(parts, positions) for parts in columns)
        has_numbers = list(map(_has_numbers, columns))
        numbers = list(compress(columns, has_numbers))
        taken = iter(_numbers_taken(numbers, _as_indices(positions, numbers[0])) if numbers else ())
        return tuple(
            next(taken) if is_taken else self.taken(parts, positions)
            for parts, is_taken in zip(columns, has_numbers, strict=True)
        )

    def taken(self, parts: Sequence[Values], positions: Positions | slice) -> Values:
        """The rows of all parts at these positions. A slice of one part shares its memory."""
        if isinstance(positions, slice):
            return part(joined(parts), positions.start, positions.stop)
        if not isinstance(parts[0], np.ndarray):
            return taken_of(joined(parts), positions)
        if len(parts) > 1 and is_wide(parts[0]):
            return _scattered(parts, positions, self.arrays)
        # Every position is a row, so nothing is clipped; this mode spares NumPy a look at each of them.
        rows = self.arrays.empty((len(positions), *parts[0].shape[1:]), parts[0].dtype)
        return self._in_one(parts).take(positions, axis=0, mode="clip", out=rows)

    def _in_one(self, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The rows of all parts, until the next call."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        shape = sum(map(len, parts)), *first.shape[1:]
        size = sum(part.nbytes for part in parts)
        if len(self._joined) < size:
            self._joined = np.empty(size, np.uint8)
        return np.concatenate(parts, out=self._joined[:size].view(first.dtype).reshape(shape))


def _has_numbers(parts: Sequence[Values]) -> bool:
    """True for a column of one type with one number, or another value of as many bytes, in each row."""
    return all(isinstance(part, np.ndarray) for part in parts) and all(
        part.dtype == parts[0].dtype and part.ndim == 1 and part.itemsize in _BITS and part.flags.c_contiguous
        for part in parts
    )


def _as_indices(positions: Positions, parts: Sequence[Values]) -> pa.Array:
    """The positions as Arrow's indices, all of which are rows of a column with these parts. Short ones gather faster:
    more of the rows stay in the cache.
    """
    rows = sum(map(len, parts))
    if len(positions) and not 0 <= positions.min() <= positions.max() < rows:  # Arrow is told not to look
        raise IndexError(f"positions from {positions.min()} to {positions.max()} of {rows} rows")
    return pa.array(positions.astype(np.uint32 if rows <= _MOST_SHORT else np.uint64))


def _numbers_taken(columns: Columns, at: pa.Array) -> list[npt.NDArray[Any]]:
    """The rows of columns of numbers at these indices, each column in memory of its own."""
    if not len(at):
        return [np.empty(0, parts[0].dtype) for parts in columns]
    kinds = [parts[0].dtype for parts in columns]
    table = pa.Table.from_arrays(
        [
            pa.chunked_array([_as_bits(part) for part in parts], _BITS[kind.itemsize])
            for kind, parts in zip(kinds, columns, strict=True)
        ],
        [str(number) for number in range(len(columns))],
    )
    taken = pc.take(table, at, boundscheck=False)
    return [_as_array(column, kind) for column, kind in zip(taken.columns, kinds, strict=True)]


def _as_bits(part: npt.NDArray[Any]) -> pa.Array:
    """The bits of numbers, in the same memory."""
    bits = _BITS[part.itemsize]
    return pa.Array.from_buffers(bits, len(part), [None, pa.py_buffer(part.view(f"u{part.itemsize}"))])


def _as_array(column: pa.ChunkedArray, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The numbers with these bits, in the same memory."""
    bits = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return np.frombuffer(bits.buffers()[1], kind, len(bits), bits.offset * kind.itemsize)


def _scattered(parts: Sequence[npt.NDArray[Any]], positions: Positions, arrays: ReusedMemory) -> npt.NDArray[Any]:
    """The rows at these positions, each copied from its part to its place. Positions may repeat."""
    rows = arrays.empty((len(positions), *parts[0].shape[1:]), parts[0].dtype)
    by_row = np.argsort(positions, kind="stable")
    sorted_rows = positions[by_row]
    first = 0
    for values in parts:
        low, high = np.searchsorted(sorted_rows, (first, first + len(values)))
        chosen = sorted_rows[low:high] - first
        is_whole = len(chosen) == len(values) and bool((chosen == np.arange(len(values))).all())
        rows[by_row[low:high]] = values if is_whole else values[chosen]
        first += len(values)
    return rows


def is_wide(values: npt.NDArray[Any]) -> bool:
    """True if a row takes so many bytes that it is copied by itself."""
    return values.itemsize * math.prod(values.shape[1:]) >= WIDE_BYTES


def own(values: Values) -> Values:
    """The rows, in an array of their own: a part of an array keeps the memory of the whole one."""
    return values.copy() if isinstance(values, np.ndarray) else values


def part(values: Values, first: int, end: int) -> Values:
    """The rows from `first` up to `end`, in the same memory."""
    return values[first:end] if isinstance(values, np.ndarray) else values.slice(first, end - first)


def even_parts(values: Values, first: int, width: int, count: int) -> list[Values]:
    """So many parts of `width` rows, from row `first` on, in the same memory."""
    if not isinstance(values, np.ndarray):
        return [values.slice(first + at * width, width) for at in range(count)]
    # NumPy takes the rows of an array of one more dimension apart in half the time of a loop in Python.
    return list(values[first : first + count * width].reshape(count, width, *values.shape[1:]))


def joined(parts: Sequence[Values]) -> Values:
    """The rows of all parts. One part alone is itself."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return as_one(parts)


def size_of(values: Values) -> int:
    """The bytes of the rows."""
    return int(values.nbytes)

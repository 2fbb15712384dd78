"""Takes the rows of a window's parts in their shuffled order. Each row is copied as few times as its width allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .order.reused_memory import ReusedMemory
from .order.second_thread import SecondThread
from .order.shuffle import Positions

Values: TypeAlias = npt.NDArray[Any] | pa.Array
"""The rows of one column, in memory of the loader or of the engine."""
Stack: TypeAlias = Sequence[Sequence[Any]]
"""The parts of neighbouring columns. If there are several columns, all have numbers of one type, and as many rows."""

WORTH_BYTES: Final = 1 << 20
"""Smaller windows are gathered sooner than a second thread begins to."""
WIDE_BYTES: Final = 256
"""Rows from this width on are copied one by one. Narrower ones are joined first, in memory that is in the cache."""
STACK_BYTES: Final = 2 << 20
STACK_COLUMNS: Final = 4
"""So many narrow columns are joined and gathered together, if they are in the cache together: each call of NumPy gives
up the interpreter's lock and waits to get it again. They are in one piece of memory: who keeps one column of a batch
keeps the others of its stack, too.
"""


class RowGathering:
    """Gathers rows of columns, with `two_threads` on two threads until `close`. Keeps the memory in which narrow rows
    are joined, and that of columns that nobody has any more.
    """

    def __init__(self, *, two_threads: bool = False) -> None:
        self._first, self._second = _Joining(), _Joining()
        self.beside = SecondThread() if two_threads else None
        """The second thread, if there is one."""
        self.arrays = ReusedMemory()
        """The memory of columns that are gathered."""

    def close(self) -> None:
        """End the second thread."""
        if self.beside is not None:
            self.beside.close()

    def all_taken(self, columns: Sequence[Sequence[Values]], positions: Positions | slice) -> tuple[Values, ...]:
        """The rows of each column at these positions, as `taken` gives them."""
        if isinstance(positions, slice):
            return tuple(self.taken(parts, positions) for parts in columns)
        tasks = [partial(self._stack_taken, stack, positions) for stack in _stacks(columns)]
        size = sum(map(_bytes, columns))
        if self.beside is None or len(tasks) == 1 or size < WORTH_BYTES:
            return tuple(chain.from_iterable(task(False) for task in tasks))
        return tuple(chain.from_iterable(self.beside.share(tasks)))

    def taken(self, parts: Sequence[Values], positions: Positions | slice) -> Values:
        """The rows of all parts at these positions. A slice of one part shares its memory."""
        return self._taken(parts, positions, is_second=False)

    def _stack_taken(self, columns: Stack, positions: Positions, is_second: bool) -> Sequence[Values]:
        """The rows of each column of a stack at these positions."""
        if len(columns) == 1:
            return [self._taken(columns[0], positions, is_second)]
        rows = self.arrays.empty((len(columns), len(positions)), columns[0][0].dtype)
        return list(self._joining(is_second).stacked(columns).take(positions, axis=1, mode="clip", out=rows))

    def _taken(self, parts: Sequence[Values], positions: Positions | slice, is_second: bool) -> Values:
        if isinstance(positions, slice):
            return part(joined(parts), positions.start, positions.stop)
        if not isinstance(parts[0], np.ndarray):
            return joined(parts).take(pa.array(positions))
        if len(parts) > 1 and is_wide(parts[0]):
            return _scattered(parts, positions, self.arrays)
        # Every position is a row, so nothing is clipped; this mode spares NumPy a look at each of them.
        rows = self.arrays.empty((len(positions), *parts[0].shape[1:]), parts[0].dtype)
        return self._joining(is_second).joined(parts).take(positions, axis=0, mode="clip", out=rows)

    def _joining(self, is_second: bool) -> _Joining:
        return self._second if is_second else self._first


class _Joining:
    """Memory in which the parts of narrow columns are joined, by one thread."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def joined(self, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The rows of all parts, until the next call."""
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts, out=self._empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype))

    def stacked(self, columns: Stack) -> npt.NDArray[Any]:
        """A row for each column, with the rows of all of its parts, until the next call."""
        rows = self._empty((len(columns), sum(map(len, columns[0]))), columns[0][0].dtype)
        np.concatenate(list(chain.from_iterable(columns)), out=rows.reshape(-1))
        return rows

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        size = math.prod(shape) * dtype.itemsize
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size].view(dtype).reshape(shape)


def _stacks(columns: Sequence[Sequence[Values]]) -> Sequence[Stack]:
    """All columns in their order, neighbours together that NumPy joins in one call."""
    stacks: list[list[Sequence[Any]]] = []
    kind: str | None = None
    room = 0
    for parts in columns:
        room -= 1
        if kind is not None and room >= 0 and _kind(parts) == kind:
            stacks[-1].append(parts)
        else:
            stacks.append([parts])
            kind = _kind(parts)
            room = 0 if kind is None else min(STACK_COLUMNS, STACK_BYTES // _bytes(parts)) - 1
    return stacks


def _kind(parts: Sequence[Values]) -> str | None:
    """The type of the values of a column of numbers that is in several parts; None of any other column. (A type of
    NumPy itself may be equal to None.)
    """
    first = parts[0]
    return first.dtype.str if len(parts) > 1 and isinstance(first, np.ndarray) and first.ndim == 1 else None


def _bytes(parts: Sequence[Values]) -> int:
    return max(1, sum(map(size_of, parts)))


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
    return pa.concat_arrays(parts)


def size_of(values: Values) -> int:
    """The bytes of the rows."""
    return int(values.nbytes)

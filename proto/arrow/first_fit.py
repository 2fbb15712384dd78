"""Fills rows of one length with lists of numbers, first fit: each list goes to the first row that has room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]

PLACE_BYTES: Final = 64
"""About the bytes that the place of one list takes while rows are filled."""

_LOOK_EVERY: Final = 1 << 22
"""Open rows that are looked at for room between two looks: some milliseconds."""
_READ_AT_ONCE: Final = 4_096


class FilledRows(NamedTuple):
    """Arrays of shape (rows, length): the items, the number of each item's list in its row from 1 (0 behind the last
    list), and the item's position in its list.
    """

    items: Array
    segments: Array
    positions: Array


class FirstFit:
    """The rows that lists of `items` fill, in the order in which rows were begun. `padding` stands behind the last list
    of a row. A list that is longer than a row is cut into lists of `length` items, and the rest; an empty one takes no
    room. `look` is called between parts of the work. Only the places of the lists are known at first: `filled` makes
    the rows.
    """

    def __init__(
        self,
        items: Array,
        starts: Positions,
        lengths: Positions,
        length: int,
        padding: int,
        look: Callable[[], None] | None = None,
    ) -> None:
        self._items = items
        self._length = length
        self._padding = padding
        starts, lengths = _cut(starts, lengths, length)
        rows, first_places, segments = _first_fit(lengths, length, look)
        self.rows = int(rows.max()) + 1 if len(rows) else 0
        by_row = np.argsort(rows, kind="stable")
        self._starts, self._lengths = starts[by_row], lengths[by_row]
        self._targets, self._segments = (rows * length + first_places)[by_row], segments[by_row]

    def filled(self, first: int, last: int) -> FilledRows:
        """The rows from `first` to before `last`."""
        length, count = self._length, last - first
        columns = FilledRows(
            np.full(count * length, self._padding, self._items.dtype),
            np.zeros(count * length, np.int32),
            np.zeros(count * length, np.int32),
        )
        mine = slice(*np.searchsorted(self._targets, (first * length, last * length)))
        lengths = self._lengths[mine]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        targets = np.repeat(self._targets[mine] - first * length, lengths) + within
        sources = np.repeat(self._starts[mine], lengths) + within
        columns.items[targets] = self._items[sources]
        columns.segments[targets] = np.repeat(self._segments[mine], lengths)
        columns.positions[targets] = within
        return FilledRows(*(column.reshape(count, length) for column in columns))


def parts(lengths: Positions, most: int) -> Positions:
    """The number of lists of at most `most` items into which lists of these lengths are cut."""
    return -(-lengths // most)


def _cut(starts: Positions, lengths: Positions, most: int) -> tuple[Positions, Positions]:
    """Lists of at most `most` items, without empty ones."""
    counts = parts(lengths, most)
    number = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    cut_lengths = np.minimum(np.repeat(lengths, counts) - number * most, most)
    return np.repeat(starts, counts) + number * most, cut_lengths


def _first_fit(
    lengths: Positions, room: int, look: Callable[[], None] | None
) -> tuple[Positions, Positions, Positions]:
    """(row, first position in the row, number in the row) of each list."""
    rows, firsts, numbers = (np.empty(len(lengths), np.int64) for _ in range(3))
    shortest = int(lengths.min()) if len(lengths) else 0
    left = np.empty(0, np.int64)  # the room of the rows that are open, in their order
    opened: list[int] = []
    counts: list[int] = []
    looked_at = 0
    for at, length in enumerate(_numbers(lengths)):
        looked_at += len(left) + _READ_AT_ONCE  # a list takes as long as some thousand rows
        if look is not None and looked_at >= _LOOK_EVERY:
            looked_at = 0
            look()
        fits = left >= length
        slot = int(fits.argmax()) if len(fits) else 0
        if not len(fits) or not fits[slot]:
            slot = len(opened)
            opened.append(len(counts))
            counts.append(0)
            left = np.append(left, room)
        row = opened[slot]
        counts[row] += 1
        rows[at], firsts[at], numbers[at] = row, room - left[slot], counts[row]
        left[slot] -= length
        if left[slot] < shortest:
            left = np.delete(left, slot)
            del opened[slot]
    return rows, firsts, numbers


def _numbers(lengths: Positions) -> Iterator[int]:
    """The lengths as Python's numbers, some at a time."""
    for first in range(0, len(lengths), _READ_AT_ONCE):
        yield from lengths[first : first + _READ_AT_ONCE].tolist()

"""Fills rows of one length with lists of numbers, first fit: each list goes to the first row that has room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]

_LOOK_EVERY: Final = 4_096


class FilledRows(NamedTuple):
    """Arrays of shape (rows, length): the items, the number of each item's list in its row from 1 (0 behind the last
    list), and the item's position in its list.
    """

    items: Array
    segments: Array
    positions: Array


def filled_rows(
    items: Array,
    starts: Positions,
    lengths: Positions,
    length: int,
    padding: int,
    look: Callable[[], None] | None = None,
) -> FilledRows:
    """The rows that lists of `items` fill, in the order in which rows were begun. `padding` stands behind the last list
    of a row. A list that is longer than a row is cut into lists of `length` items, and the rest; an empty one takes no
    room. `look` is called between parts of the work.
    """
    starts, lengths = _cut(starts, lengths, length)
    rows, first_places, segments = _first_fit(lengths, length, look)
    count = int(rows.max()) + 1 if len(rows) else 0
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    targets = np.repeat(rows * length + first_places, lengths) + within
    columns = FilledRows(
        np.full(count * length, padding, items.dtype),
        np.zeros(count * length, np.int32),
        np.zeros(count * length, np.int32),
    )
    sources = items[np.repeat(starts, lengths) + within], np.repeat(segments, lengths), within
    for column, source in zip(columns, sources, strict=True):
        column[targets] = source
    return FilledRows(*(column.reshape(count, length) for column in columns))


def _cut(starts: Positions, lengths: Positions, most: int) -> tuple[Positions, Positions]:
    """Lists of at most `most` items, without empty ones."""
    parts = -(-lengths // most)
    number = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    cut_lengths = np.minimum(np.repeat(lengths, parts) - number * most, most)
    return np.repeat(starts, parts) + number * most, cut_lengths


def _first_fit(
    lengths: Positions, room: int, look: Callable[[], None] | None
) -> tuple[Positions, Positions, Positions]:
    """(row, first position in the row, number in the row) of each list."""
    rows, firsts, numbers = (np.empty(len(lengths), np.int64) for _ in range(3))
    shortest = int(lengths.min()) if len(lengths) else 0
    left = np.empty(0, np.int64)  # the room of the rows that are open, in their order
    opened: list[int] = []
    counts: list[int] = []
    for at, length in enumerate(lengths.tolist()):
        if look is not None and at % _LOOK_EVERY == 0:
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

"""Packs lists of tokens into rows of one length: first fit within a window, so the packing repeats with the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..proto.errors import ExecutionError, InvalidRequest
from .order.shuffle import Positions

SEGMENT: Final = "_segment"
POSITION: Final = "_position"

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Pack:
    """Rows of `length` tokens, each filled with lists of the column `column`.

    A list goes to the first row of its window that has room. A longer list is cut into lists of `length` tokens, and
    the rest. Batches have three arrays of shape (rows, length): the tokens, with `padding` behind the last list;
    `_segment`, the number of each token's list in its row, from 1, and 0 for padding; `_position`, the token's position
    in its list.

    >>> tidegate.training.Pack("tokens", 2048)
    Pack(column='tokens', length=2048, padding=0)
    """

    column: str
    length: int
    padding: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.length, int) or isinstance(self.length, bool) or self.length < 1:
            raise InvalidRequest(f"length={self.length!r} of a packing must be a whole number from 1 on")


def packed(lists: pa.Array, pack: Pack) -> tuple[Array, Array, Array]:
    """Tokens, segments and positions of the rows that the lists fill, in the order in which rows were begun."""
    if lists.null_count or lists.values.null_count:
        raise ExecutionError(
            f"column {pack.column!r} has nulls, which cannot be packed: filter them out in the plan",
            reason="NULLS_IN_BATCH",
        )
    offsets = lists.offsets.to_numpy().astype(np.int64)
    starts, lengths = _cut(offsets[:-1], np.diff(offsets), pack.length)
    rows, places_in_row, segments = _first_fit(lengths, pack.length)
    count = int(rows.max()) + 1 if len(rows) else 0
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    targets = np.repeat(rows * pack.length + places_in_row, lengths) + within
    values = lists.values.to_numpy(zero_copy_only=False)
    columns = (
        np.full(count * pack.length, pack.padding, values.dtype),
        np.zeros(count * pack.length, np.int32),
        np.zeros(count * pack.length, np.int32),
    )
    sources = values[np.repeat(starts, lengths) + within], np.repeat(segments, lengths), within
    for column, source in zip(columns, sources, strict=True):
        column[targets] = source
    tokens, numbers, positions = (column.reshape(count, pack.length) for column in columns)
    return tokens, numbers, positions


def _cut(starts: Positions, lengths: Positions, most: int) -> tuple[Positions, Positions]:
    """Lists of at most `most` tokens, without empty ones."""
    parts = -(-lengths // most)
    number = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    cut_lengths = np.minimum(np.repeat(lengths, parts) - number * most, most)
    return np.repeat(starts, parts) + number * most, cut_lengths


def _first_fit(lengths: Positions, room: int) -> tuple[Positions, Positions, Positions]:
    """(row, first position in the row, number in the row) of each list."""
    rows, firsts, numbers = (np.empty(len(lengths), np.int64) for _ in range(3))
    shortest = int(lengths.min()) if len(lengths) else 0
    left = np.empty(0, np.int64)  # the room of the rows that are open, in their order
    opened: list[int] = []
    counts: list[int] = []
    for at, length in enumerate(lengths.tolist()):
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

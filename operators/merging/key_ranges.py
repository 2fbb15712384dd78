"""For each row of one sorted side, the range of rows with its key on the other side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from ..arrays.layout import Words
from ..core.blocks import BLOCK_ROWS

#: The number of rows; or a flag, where it is one at most.
Counts: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]

_DENSE: Final = 4


def ranges(probe: Words, held: Words, *, distinct: bool) -> tuple[Words, Counts]:
    """For each probed row, the first of the held rows with its key, and their number. Where the number is 0 the first
    is arbitrary. `distinct` says that no two held rows have the same key.
    """
    base = min(int(probe[0]), int(held[0]))
    span = max(int(probe[-1]), int(held[-1])) - base + 1
    if span <= _DENSE * (len(probe) + len(held)):
        return _looked_up(probe - base, held - base, span, distinct=distinct)
    first = np.searchsorted(held, probe, side="left")
    if distinct:
        return first, held[np.minimum(first, len(held) - 1)] == probe
    return first, np.searchsorted(held, probe, side="right") - first


def _looked_up(probe: Words, held: Words, span: int, *, distinct: bool) -> tuple[Words, Counts]:
    """`ranges` by a table of all keys, for keys that are close to each other: several times as fast as a search."""
    if distinct:
        positions = np.full(span, -1, dtype=np.int64)
        positions[held] = np.arange(len(held))
        first = positions[probe]
        return first, first >= 0
    counts = np.bincount(held, minlength=span)
    return (np.cumsum(counts) - counts)[probe], counts[probe]


def expanded(first: Words, counts: Counts, at: int, to: int) -> tuple[Words, Words]:
    """The pairs of the probed rows `at` to `to`."""
    counts = counts[at:to]
    if counts.dtype == np.bool_ or counts.max(initial=0) <= 1:
        rows = np.flatnonzero(counts) + at
        return rows, first[rows]
    rows = np.repeat(np.arange(at, to), counts)
    starts = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - np.repeat(starts - first[at:to], counts)


def parts(probe: Words, counts: Counts) -> Iterator[tuple[int, int, bool]]:
    """Runs of probed rows. A run has whole groups that make a block of pairs at most, or one group that makes more;
    then the last item is True.
    """
    if int(counts.sum()) <= BLOCK_ROWS:
        yield 0, len(probe), False
        return
    before = np.concatenate([[0], np.cumsum(counts)])
    at = 0
    while at < len(probe):
        to = int(np.searchsorted(before, before[at] + BLOCK_ROWS, side="right")) - 1
        if to < len(probe):
            to = int(np.searchsorted(probe, probe[to], side="left"))
        if to <= at:
            to = int(np.searchsorted(probe, probe[at], side="right"))
        yield at, to, bool(before[to] - before[at] > BLOCK_ROWS)
        at = to

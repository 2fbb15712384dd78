"""Where the rows of one sorted side find their key among the rows of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from ..arrays.layout import Words
from ..core.blocks import BLOCK_ROWS

#: How many; or whether, where it is one at most.
Counts: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]

_DENSE: Final = 4


def ranges(probe: Words, held: Words, *, distinct: bool) -> tuple[Words, Counts]:
    """For each probed row, the first of the held rows with its key, and how many there are. Where there are none, the
    first is any. `distinct` says that no two held rows have the same key.
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
    """By a table of all keys, where they are close to each other: several times as fast as searching."""
    if distinct:
        places = np.full(span, -1, dtype=np.int64)
        places[held] = np.arange(len(held))
        first = places[probe]
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
    """Runs of probed rows, each of whole groups that make a block of pairs at most, or of one group that makes more
    (then the last item says so).
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

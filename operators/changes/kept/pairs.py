"""Pairs of the keys of a look-up and the entries that have them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from ..values.change import Numbers
from ..values.value_columns import Index

PAIRS: Final = 1 << 18
"""The most pairs of a key and a row that are made at a time, except for the pairs of a single key."""

_FIRST: Final = np.zeros(1, dtype=np.int64)


def of_one(first: int, count: int) -> tuple[Index, Index]:
    """The pairs of a single key with so many rows."""
    if count == 1:
        return _FIRST, np.array((first,))
    return np.zeros(count, dtype=np.int64), np.arange(first, first + count)


def pairs(asked: Index | None, first: Index, counts: Numbers) -> Iterator[tuple[Index, Index]]:
    """Pairs of each of `asked` (of all keys, if that is None) with its rows, from its first row on. There are not many
    more than `PAIRS` at a time, because all pairs together might not fit in memory.
    """
    ends = counts.cumsum()
    total = int(ends[-1])
    if not total:
        return
    if asked is None:
        asked = np.arange(len(counts))
    cuts = [0, len(counts)]
    if total > PAIRS:
        cuts[1:1] = np.unique(ends.searchsorted(np.arange(PAIRS, total, PAIRS), side="right")).tolist()
    for start, stop in pairwise(cuts):
        if start == stop:
            continue
        some = slice(start, stop)
        before = int(ends[start - 1]) if start else 0
        pair_count = int(ends[stop - 1]) - before
        if not pair_count:
            continue
        if pair_count == stop - start == np.count_nonzero(counts[some]):
            yield asked[some], first[some]
            continue
        starts = first[some] - ends[some]
        starts += counts[some]
        starts += before
        at = starts.repeat(counts[some])
        at += np.arange(pair_count)
        yield asked[some].repeat(counts[some]), at

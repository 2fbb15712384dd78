"""Merges of two runs of entries, whose rows may be long.

Rows are moved column after column, and what is moved is let go of: besides the rows themselves, a merge takes the
memory of one column of its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.interrupts import beside
from ...core.wide_rows import PassingRows
from .change import Numbers
from .consolidate import Arrange, Entries, positions, rearranged
from .rows import Rows, joined, taken
from .value_columns import Index, Mask

_FREED: Final = PassingRows(4 << 20)
"""The memory of merged runs. All that merges free goes back to the system, or it would stay beside the state."""

_Pair: TypeAlias = list[npt.NDArray[Any]]
"""Numbers of the older and of the newer run."""


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """A merge that is not made yet: the entries of two runs that are left, in order, and their sums. Entries of the
    newer run are numbered behind those of the older one.
    """

    at: Index
    weights: Numbers
    row_bytes: int
    """The bytes that a row takes in the longest column."""

    NUMBERS: ClassVar[int] = 48
    """The bytes of numbers for each entry of both runs, while the merge is made."""

    @classmethod
    def of(cls, older: Entries, newer: Entries) -> Merge:
        _FREED.add_bytes(newer.nbytes)
        return beside(lambda: _planned(older, newer), len(older) + len(newer))

    @property
    def nbytes(self) -> int:
        """About the bytes of rows that the merge takes beside the runs."""
        return self.row_bytes * len(self.at)


def _planned(older: Entries, newer: Entries) -> Merge:
    key_hashes = np.concatenate([older.key_hashes, newer.key_hashes])
    hashes = key_hashes if _is_shared(older, newer) else np.concatenate([older.hashes, newer.hashes])
    rounds = tuple(map(np.concatenate, zip(older.rounds, newer.rounds, strict=True)))
    weights = np.concatenate([older.weights, newer.weights])
    numbers = Entries(key_hashes, hashes, Rows((), len(hashes)), weights, rounds)
    at, sums = positions(numbers, "stable", same=lambda one, other: _same(older.rows, newer.rows, one, other))
    columns = zip(older.rows.columns, newer.rows.columns, strict=True)
    longest = max((mine.nbytes + theirs.nbytes for mine, theirs in columns), default=0)
    return Merge(at, sums, longest // max(len(hashes), 1))


def _is_shared(older: Entries, newer: Entries) -> bool:
    return all(run.hashes is run.key_hashes for run in (older, newer))


def _same(older: Rows, newer: Rows, one: Index, other: Index) -> Mask:
    """True for each pair of the same rows, by their numbers in both runs."""
    same = np.empty(len(one), dtype=np.bool_)
    for mine, first in ((older, 0), (newer, len(older))):
        of_mine = (one >= first) & (one < first + len(mine))
        for theirs, start in ((older, 0), (newer, len(older))):
            which = np.flatnonzero(of_mine & (other >= start) & (other < start + len(theirs)))
            if len(which):
                same[which] = mine.same(one[which] - first, theirs, other[which] - start)
    return same


def merged(runs: list[Entries], merge: Merge, arrange: Arrange | None) -> Entries:
    """The older and the newer run as one, in the order of `arrange` if it is given. The list is emptied: nothing else
    may hold the runs while they are merged.
    """
    older, newer = runs
    runs.clear()
    shared = _is_shared(older, newer)
    rows = [older.rows, newer.rows]
    size = older.nbytes + newer.nbytes
    key_hashes, hashes = [older.key_hashes, newer.key_hashes], [older.hashes, newer.hashes]
    rounds: Sequence[_Pair] = [list(pair) for pair in zip(older.rounds, newer.rounds, strict=True)]
    del older, newer
    _FREED.add_bytes(Merge.NUMBERS * len(merge.at))
    at, weights = merge.at, merge.weights
    left = _left(at, sum(map(len, rows)))
    if left is not None:
        numbers = left.cumsum() - 1
        parts = left[: len(rows[0])], left[len(rows[0]) :]
        rows = [mine.filter(part) for mine, part in zip(rows, parts, strict=True)]
        for pair in (key_hashes, hashes, *rounds):
            pair[:] = [mine[part] for mine, part in zip(pair, parts, strict=True)]
        at = numbers.take(at)
    together = [joined(rows)]
    if arrange is not None:
        at, weights = rearranged(arrange(together[0], np.concatenate(key_hashes)), at, weights)
    all_rows = taken(together, at)
    keys = _moved(key_hashes, at)
    run = Entries(keys, keys if shared else _moved(hashes, at), all_rows, weights, tuple(_moved(r, at) for r in rounds))
    _FREED.add_bytes(2 * size)
    return run


def _left(at: Index, entries: int) -> Mask | None:
    """True for each entry that is left, where most are not; these are let go of first. None where most are left."""
    if 2 * len(at) >= entries:
        return None
    left = np.zeros(entries, dtype=np.bool_)
    left[at] = True
    return left


def _moved(pair: _Pair, at: Index) -> npt.NDArray[Any]:
    """Numbers of both runs at these positions. The pair is emptied."""
    together = np.concatenate(pair)
    pair.clear()
    return together.take(at)

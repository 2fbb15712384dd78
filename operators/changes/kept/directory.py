"""Directory: the positions of a run's keys, by their values, so that keys need no search.

A directory is for runs whose key is one column of whole numbers that lie close together. It is made once look-ups in a
run have had enough keys to be worth it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ..values.change import Numbers
from ..values.consolidate import Entries, group_starts
from ..values.value_columns import Column, Index
from .packed_key_domain import whole

_A_ROW: Final = 4
"""The places that a directory may have for each of the run's rows."""
_FEW: Final = 1_024
_WORTH: Final = 8
"""A directory is made once the keys of look-ups are this part of the run's rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places of values: for each value from `low` on the `first` row that has it, and the `counts` of such rows.
    The last value has none.
    """

    low: int
    first: Index
    counts: Numbers

    @classmethod
    def of(cls, column: Column) -> Self | None:
        """The places of a column in which rows of one value lie together; None where its values do not lie close."""
        values = whole(column)
        if values is None or not len(values):
            return None
        low, most = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
        if most - low >= max(_A_ROW * len(values), _FEW):
            return None
        offsets = values - low
        counts = np.bincount(offsets, minlength=most - low + 2)
        first = np.zeros(len(counts), dtype=np.int64)
        starts = group_starts(offsets[1:] != offsets[:-1])
        first[offsets[starts]] = starts
        return cls(low, first, counts)

    @property
    def nbytes(self) -> int:
        return 2 * int(self.first.nbytes)

    def ranges(self, keys: Column) -> tuple[Index, Index] | None:
        """For each of the keys its first row, and the number of its rows; None where the keys are no whole numbers."""
        values = whole(keys)
        if values is None:
            return None
        at = (values - self.low).view(np.uint64)  # an unsigned number below the least value is above all others as well
        at = np.minimum(at, np.uint64(len(self.first) - 1)).view(np.int64)
        return self.first.take(at), self.counts.take(at)

    def range(self, key: Column) -> tuple[int, int] | None:
        """`ranges` of a single key, as fast as it can be."""
        values = whole(key)
        if values is None:
            return None
        at = values.item() - self.low
        return (self.first.item(at), self.counts.item(at)) if 0 <= at < len(self.first) else (0, 0)


class Directory:
    """The directory of the column `key`, for one run at a time: a look-up in another run replaces it."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._run: Entries | None = None
        self._asked = 0
        self._made = False
        self._places: Places | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self._places is None else self._places.nbytes

    def ranges(self, run: Entries, keys: Column) -> tuple[Index, Index] | None:
        """For each of the keys the first of the run's rows that have it, and their number; None where there is no
        directory.
        """
        positions = self._asked_for(run, len(keys))
        return None if positions is None else positions.ranges(keys)

    def range(self, run: Entries, key: Column) -> tuple[int, int] | None:
        """`ranges` of a single key, as fast as it can be."""
        positions = self._asked_for(run, 1)
        return None if positions is None else positions.range(key)

    def forget(self) -> None:
        self._run, self._places = None, None

    def _asked_for(self, run: Entries, keys: int) -> Places | None:
        """The places of the run's values; None if the run has no directory."""
        if run is not self._run:
            self._run, self._asked, self._made, self._places = run, 0, False, None
        if not self._made:
            self._asked += keys
            if self._asked * _WORTH < len(run):
                return None
            self._made = True
            self._places = Places.of(run.rows.columns[self._key])
        return self._places

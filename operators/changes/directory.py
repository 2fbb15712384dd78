"""Directory: where the keys of a run are, by their values, so that they are not searched for.

It is for runs whose key is one column of whole numbers that lie close together, and is made once a run has been asked
for as many keys as make it worth that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .box import whole
from .change import Numbers
from .columns import Column, Index
from .consolidate import Entries, group_starts

_A_ROW: Final = 4
"""Places that there may be for each of the run's rows."""
_FEW: Final = 1_024
_WORTH: Final = 8
"""It is made when the keys asked for are this part of the run's rows."""


class Directory:
    """Of the column `key` of one run after another: each is forgotten once it is asked for another one."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._run: Entries | None = None
        self._asked = 0
        self._made = False
        self._low = 0
        self._first: Index | None = None
        """The first of each value's rows in the run, ..."""
        self._counts: Numbers = np.empty(0, dtype=np.int64)
        """... and how many there are; none for a value beyond the last."""

    @property
    def nbytes(self) -> int:
        return 0 if self._first is None else 2 * int(self._first.nbytes)

    def ranges(self, run: Entries, keys: Column) -> tuple[Index, Index] | None:
        """For each of the keys the first of the run's rows that have it, and how many there are; None where it does not
        say.
        """
        first = self._asked_for(run, len(keys))
        values = whole(keys) if first is not None else None
        if first is None or values is None:
            return None
        at = (values - self._low).view(np.uint64)  # what is below the least value is above all as well
        at = np.minimum(at, np.uint64(len(first) - 1)).view(np.int64)
        return first.take(at), self._counts.take(at)

    def range(self, run: Entries, key: Column) -> tuple[int, int] | None:
        """`ranges` of a single key, as fast as it can be."""
        first = self._asked_for(run, 1)
        values = whole(key) if first is not None else None
        if first is None or values is None:
            return None
        at = values.item() - self._low
        return (first.item(at), self._counts.item(at)) if 0 <= at < len(first) else (0, 0)

    def forget(self) -> None:
        self._run, self._first = None, None

    def _asked_for(self, run: Entries, keys: int) -> Index | None:
        """The first of each value's rows in the run, if it has a directory."""
        if run is not self._run:
            self._run, self._asked, self._made, self._first = run, 0, False, None
        if not self._made:
            self._asked += keys
            if self._asked * _WORTH < len(run):
                return None
            self._make(run)
        return self._first

    def _make(self, run: Entries) -> None:
        self._made = True
        values = whole(run.rows.columns[self._key])
        if values is None:
            return
        low, most = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
        if most - low >= max(_A_ROW * len(run), _FEW):
            return
        self._low = low
        offsets = values - low
        self._counts = np.bincount(offsets, minlength=most - low + 2)
        self._first = np.zeros(len(self._counts), dtype=np.int64)
        starts = group_starts(offsets[1:] != offsets[:-1])
        self._first[offsets[starts]] = starts

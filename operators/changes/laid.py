"""Laid: the rows with which an arrangement begins, in the order of their key's values.

Where many rows come in before the first one is asked for, as a join's other side does, and all of their columns are
whole numbers that lie close together, they are put in order as single words, and neither hashed nor searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from .change import Change, all_one
from .columns import Column, Index
from .consolidate import consolidated_as_words
from .directory import Places
from .rows import Rows

_MANY: Final = 4_096


class Laid:
    """Rows by their column `key`. They wait until one of them is asked for; then nothing is added any more."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._waiting: list[Change] = []
        self._places: Places | None = None
        self.rows = 0
        self.nbytes = 0

    def add(self, change: Change) -> bool:
        """Keep these, if they are for it: many, all of them there once."""
        if self._places is not None or len(change) < _MANY or not all_one(change.weights):
            return False
        self._waiting.append(change)
        self.rows += len(change)
        self.nbytes += change.nbytes
        return True

    def ranges(self, keys: Column) -> tuple[Change, Index, Index] | None:
        """What is kept, with the place of each key's first row, and how many it has; None where it cannot say: what is
        kept is then to be taken.
        """
        places = self._places or self._lay()
        ranges = None if places is None else places.ranges(keys)
        return None if ranges is None else (self._waiting[0], *ranges)

    def range(self, key: Column) -> tuple[Change, int, int] | None:
        """`ranges` of a single key, as fast as it can be."""
        places = self._places or self._lay()
        found = None if places is None else places.range(key)
        return None if found is None else (self._waiting[0], *found)

    def take(self) -> Change | None:
        """All, which it keeps no longer."""
        waiting, self._waiting, self._places = self._waiting, [], None
        self.rows = self.nbytes = 0
        return Change.concat(waiting) if waiting else None

    def _lay(self) -> Places | None:
        """Put what waits in order, if it can be."""
        change = Change.concat(self._waiting)
        times = tuple(int(numbers[0]) for numbers in change.rounds)
        if any(np.count_nonzero(n != time) for n, time in zip(change.rounds, times, strict=True)):
            return None
        columns = range(len(change.rows.columns))
        order = (self._key, *(at for at in columns if at != self._key))
        found = consolidated_as_words(Change(change.rows.select(order), change.weights))
        places = None if found is None else Places.of(found.rows.columns[0])
        if found is None or places is None:
            return None
        laid = Change(_in_order(found.rows, order), found.weights, consolidated=True).at(times)
        self._waiting, self._places = [laid], places
        self.rows, self.nbytes = len(laid), laid.nbytes + places.nbytes
        return places


def _in_order(rows: Rows, order: Sequence[int]) -> Rows:
    """The rows whose columns stand in this order, as they were before."""
    return rows.select([order.index(at) for at in range(len(order))])

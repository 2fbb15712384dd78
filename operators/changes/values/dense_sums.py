"""DenseSums: sums of numbers by whole numbers that lie close together, in arrays with a place for each possible key.

To add rows costs a few passes over them: nothing is sorted, hashed or searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..kept.packed_key_domain import PackedKeyDomain
from .change import Change, Numbers, all_one
from .rows import Rows

_PLACES: Final = 1 << 14
_A_ROW: Final = 4
"""The arrays may have so many places, or so many for each row that is added."""
_STILL_A_ROW: Final = 4 * _A_ROW
"""Arrays that are there may have so many places for each row, so that changes of about one size share them."""
_AHEAD: Final = 3
"""The bits that the first column has at least where there is room: its later values have a place, too."""
_END: Final = 1 << 63
_MOST: Final = 1 << 62
"""No sum may come near the end of 64 bits, because an overflow would pass unseen."""


class DenseSums:
    """The sums of `width` numbers for each key, empty at first. Keys and numbers that have no place leave them
    unchanged.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._domain: PackedKeyDomain | None = None
        self._sums: Numbers = np.empty((width, 0), dtype=np.int64)
        self._most = 0
        """No sum is farther from 0."""
        self.empty = True
        self.touched = 0
        """The rows that were added so far."""

    @property
    def nbytes(self) -> int:
        return int(self._sums.nbytes)

    def add(self, keys: Rows, numbers: Sequence[Numbers]) -> bool:
        """Add the numbers of rows, an array for each of the width's columns. False if they have no place: a key is no
        whole number, or is far from the others or from those that were added before and not taken; or a sum may be
        beyond 64 bits; or the rows are few beside the places of those that were added before and not taken. So the cost
        follows from the number of these rows.
        """
        most = max(map(_farthest, numbers)) * len(keys)
        if self._most + most >= _MOST:
            return False
        if self._sums.shape[1] > max(_PLACES, _STILL_A_ROW * len(keys)):
            if not self.empty:
                return False
            self._let_go()
        positions = None if self._domain is None else self._domain.positions(keys)
        if positions is None:
            positions = self._moved_for(keys)
            if positions is None:
                return False
        self.empty = False
        self.touched += len(keys)
        self._most += most
        counts = None
        for at, column in enumerate(numbers):
            if all_one(column):
                counts = np.bincount(positions, minlength=self._sums.shape[1]) if counts is None else counts
                self._sums[at] += counts
            elif column.any():
                np.add.at(self._sums[at], positions, column)
        return True

    def take(self, end: int | None = None) -> Change | None:
        """Take the keys whose numbers are not all 0, each once, with these numbers; None if there are none. With `end`,
        take only keys whose first column is less than this; and if nothing was added since all were taken, the arrays'
        memory is given back.
        """
        if self.empty or self._domain is None:
            if end is not None:
                self._let_go()
            return None
        extent = self._sums.shape[1]
        if end is not None:
            a_value = extent >> self._domain.bits[0]
            extent = min(max(end - self._domain.lows[0], 0) * a_value, extent)
        taken = self._taken(extent)
        if extent == self._sums.shape[1]:
            self.empty, self._most = True, 0
        return taken

    def _let_go(self) -> None:
        """Give back the memory of arrays with all sums 0."""
        self._domain, self._sums = None, self._sums[:, :0].copy()

    def _taken(self, extent: int) -> Change | None:
        assert self._domain is not None
        sums = self._sums[:, :extent]
        positions: Numbers = np.flatnonzero(sums.any(axis=0))
        if not len(positions):
            return None
        numbers = sums.take(positions, axis=1)
        sums[:] = 0
        return Change(self._domain.rows(positions), numbers[0] if self._width == 1 else np.ascontiguousarray(numbers.T))

    def _moved_for(self, keys: Rows) -> Numbers | None:
        """The places of these keys, after the sums have moved to where these keys have places, too. None if they have
        none.
        """
        held: Numbers = np.empty(0, dtype=np.int64) if self.empty else np.flatnonzero(self._sums.any(axis=0))
        before = self._domain.rows(held) if self._domain is not None and len(held) else None
        domain = _domain_around(keys if before is None else Rows.concat([before, keys]))
        if domain is None:
            return None
        sums = np.zeros((self._width, domain.size), dtype=np.int64)
        if before is not None:
            sums[:, domain.positions(before)] = self._sums[:, held]
        self._domain, self._sums = domain, sums
        return domain.positions(keys)


def _domain_around(keys: Rows) -> PackedKeyDomain | None:
    domain = PackedKeyDomain.around(keys)
    most = max(_PLACES, _A_ROW * len(keys))
    if domain is None or domain.size > most:
        return None
    first, *others = domain.bits
    ahead = PackedKeyDomain(domain.lows, (max(first, _AHEAD), *others), domain.dtypes)
    return ahead if ahead.size <= most and ahead.lows[0] + (1 << ahead.bits[0]) <= _END else domain


def _farthest(column: Numbers) -> int:
    """The greatest distance from 0."""
    if all_one(column):
        return 1
    return max(int(np.maximum.reduce(column)), -int(np.minimum.reduce(column)))

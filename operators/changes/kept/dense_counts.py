"""DenseCounts: the copies of each row, in an array with a number for each possible row.

Where rows are whole numbers that lie close together the array takes less memory than the rows would, and no row has to
be hashed, searched for, or merged.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..values.change import Change, Numbers, all_one, ones
from ..values.consolidate import added, group_starts, sum_groups
from ..values.rows import Rows
from ..values.value_columns import Index
from .packed_key_domain import PackedKeyDomain

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1

_SMALL: Final = 1 << 20
"""The places that the array may have for any number of rows."""
_MIDDLE: Final = 1 << 24
_A_ROW_OF_MIDDLE: Final = 4_096
_A_ROW: Final = 32
"""The places that the array may have for each row: no more bytes than a row takes with its hash and its weight."""


class DenseCounts:
    """The counts, empty at first. Rows that it cannot count leave it unchanged."""

    def __init__(self) -> None:
        self._domain: PackedKeyDomain | None = None
        self._counts: npt.NDArray[Any] = np.zeros(0, dtype=np.int8)
        self._rows = 0

    @property
    def nbytes(self) -> int:
        return int(self._counts.nbytes)

    def add(self, rows: Rows, weights: Numbers) -> Change | None:
        """Count these rows, of which there is at least one. Return the rows that exist now and did not before, with +1,
        and those that existed before and do not now, with -1. None where the rows cannot be counted: they are no whole
        numbers, or too far apart.
        """
        positions = self._positions(rows)
        if positions is None:
            return None
        assert self._domain is not None
        if len(positions) == 1:
            return self._add_one(self._domain, positions, weights.item())
        once = all_one(weights)
        sums: Numbers
        if once:
            positions.sort()
            bounds = _bounds(positions)
            sums = bounds[1:] - bounds[:-1]
            if len(sums) < len(positions):
                positions = positions.take(bounds[:-1])
        else:
            order = positions.argsort()
            positions = positions.take(order)
            starts = group_starts(positions[1:] != positions[:-1])
            sums = sum_groups(weights.take(order), starts)
            positions = positions.take(starts)
        before = self._counts.take(positions)
        if once and before.dtype == np.int8:  # then their sums are far from 64 bits
            return self._more(self._domain, positions, before, before + sums)
        before = before.astype(np.int64, copy=False)
        after = added(before, np.asarray(sums))
        self._put(positions, after)
        return self._changed(self._domain, positions, before, after)

    def contents(self) -> tuple[Rows, Numbers] | None:
        """All rows, each once, and their copies; None if there are none."""
        positions = self._counts.nonzero()[0]
        if self._domain is None or not len(positions):
            return None
        return self._domain.rows(positions), self._counts.take(positions).astype(np.int64)

    def _positions(self, rows: Rows) -> Numbers | None:
        if self._domain is None:
            domain = PackedKeyDomain.around(rows)
        else:
            positions = self._domain.positions(rows)
            if positions is not None:
                return positions
            domain = self._domain.extended(rows)
        if domain is None or domain.size > _most(self._rows + len(rows)):
            return None
        counts = np.zeros(domain.size, dtype=self._counts.dtype)
        if self._domain is not None:
            starts = [mine - new for mine, new in zip(self._domain.lows, domain.lows, strict=True)]
            part = tuple(slice(at, at + size) for at, size in zip(starts, self._domain.shape, strict=True))
            counts.reshape(domain.shape)[part] = self._counts.reshape(self._domain.shape)
        self._domain, self._counts = domain, counts
        return domain.positions(rows)

    def _add_one(self, domain: PackedKeyDomain, positions: Numbers, weight: int) -> Change:
        """`add` of a single row, as fast as possible."""
        position = positions.item()
        before = self._counts.item(position)
        after = before + weight
        if not _LEAST <= after <= _MOST:
            raise OverflowError(f"the weights of one row sum to {after}, which is beyond 64 bits")
        self._widen(after, after)
        self._counts[position] = after
        change = (after > 0) - (before > 0)
        self._rows += change
        some = positions if change else positions[:0]
        weights = np.array((change,)) if change < 0 else ones(len(some))
        return Change(domain.rows(some), weights, consolidated=True)

    def _widen(self, least: int, most: int) -> None:
        """Widen the numbers so that counts in this range fit."""
        if self._counts.dtype == np.int8 and (least < -128 or most > 127):
            self._counts = self._counts.astype(np.int64)

    def _put(self, positions: Numbers, counts: Numbers) -> None:
        self._widen(int(np.minimum.reduce(counts)), int(np.maximum.reduce(counts)))
        self._counts[positions] = counts

    def _more(
        self, domain: PackedKeyDomain, positions: Numbers, before: npt.NDArray[np.int8], after: Numbers
    ) -> Change:
        """`_changed` where all counts grow, so that no row can go."""
        most = int(np.maximum.reduce(after))
        self._widen(most, most)
        self._counts[positions] = after
        fresh = (before <= 0) & (after > 0)
        if np.count_nonzero(fresh) < len(positions):
            positions = positions.take(fresh.nonzero()[0])
        self._rows += len(positions)
        return Change(domain.rows(positions), ones(len(positions)), consolidated=True)

    def _changed(self, domain: PackedKeyDomain, positions: Numbers, before: Numbers, after: Numbers) -> Change:
        was, there = before > 0, after > 0
        changed = (was != there).nonzero()[0]
        if len(changed) < len(positions):
            positions = positions.take(changed)
        gone = int(np.count_nonzero(was.take(changed))) if np.count_nonzero(was) else 0
        weights = there.take(changed).astype(np.int64) * 2 - 1 if gone else ones(len(positions))
        self._rows += len(positions) - 2 * gone
        return Change(domain.rows(positions), weights, consolidated=True)


def _bounds(positions: Numbers) -> Index:
    """The starts of groups of one place each, and the end of the last one."""
    bounds = np.ones(len(positions) + 1, dtype=np.bool_)
    np.not_equal(positions[1:], positions[:-1], out=bounds[1:-1])
    return bounds.nonzero()[0]


def _most(rows: int) -> int:
    """The most places for so many rows."""
    return max(_SMALL, min(_A_ROW_OF_MIDDLE * rows, _MIDDLE), _A_ROW * rows)

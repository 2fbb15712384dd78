"""The change of an epoch's result, consolidated and in canonical order. Wide rows stay where the operators left them,
and are copied some at a time, as they go out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...core.interrupts import beside
from ...core.wide_rows import PassingRows
from .canonical_rows import into_canonical
from .change import Change, Numbers, take_weights
from .consolidate import Entries, consolidate, positions
from .order_codes import canonical_orders, order_of
from .rows import Rows
from .value_columns import Index

_FREED = PassingRows(4 << 20)


@dataclass(frozen=True, slots=True, eq=False)
class EpochResult:
    """The rows `at` positions of `rows`, in this order, and their weights. All rows as they lie, where `at` is None."""

    rows: Rows
    weights: Numbers
    at: Index | None = None

    @classmethod
    def of(cls, parts: list[Change]) -> EpochResult:
        """The result of all parts, of which there is at least one. The list is emptied."""
        size = sum(part.nbytes for part in parts)
        _FREED.add_bytes(size)
        handed = [part.rows for part in parts]
        rows = Rows.scattered(handed)
        if rows is None:
            handed.clear()
            return cls._joined(parts, size)
        weights = np.concatenate([part.weights for part in parts])
        parts.clear()
        at, sums = beside(lambda: _summed(rows, weights), len(rows))
        alike = not len(sums) or bool((sums == sums[0]).all())
        order = order_of(rows, canonical_orders(len(rows.columns)), then=() if alike else [sums], at=at)
        return cls(rows, sums[order], at[order])

    @classmethod
    def _joined(cls, parts: list[Change], size: int) -> EpochResult:
        change = Change.joined(parts)
        _FREED.add_bytes(size)
        handed = [consolidate(change)]
        del change
        _FREED.add_bytes(size)
        change = into_canonical(handed)
        return cls(change.rows, change.weights)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row, on the average."""
        return self.rows.nbytes // max(len(self.rows), 1)

    def change(self) -> Change:
        """All rows at once."""
        rows = self.rows if self.at is None else self.rows.take(self.at)
        return Change(rows, self.weights, consolidated=True)

    def taken(self, numbers: Index) -> Rows:
        """The rows with these numbers."""
        return self.rows.take(numbers if self.at is None else self.at.take(numbers))

    def parts(self, rows: int) -> Iterator[Change]:
        """The result, so many rows at a time. A result without rows has no part."""
        if 0 < len(self) <= rows:
            yield self.change()
            return
        for start in range(0, len(self), rows):
            numbers = np.arange(start, min(start + rows, len(self)))
            yield Change(self.taken(numbers), take_weights(self.weights, numbers), consolidated=True)


def _summed(rows: Rows, weights: Numbers) -> tuple[Index, Numbers]:
    """The positions of the rows that are left where weights of the same row are summed, and the sums."""
    hashes = rows.hashes()
    entries = Entries(hashes, hashes, Rows((), len(rows)), weights, ())
    return positions(entries, "quicksort", same=lambda one, other: rows.same(one, rows, other))

"""The changes of an epoch's rows, by their key and in order under it. Wide rows stay where they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays.hashing import Hashes
from ...arrays.ordering import Order
from ..values.change import Change, Numbers
from ..values.consolidate import group_starts, sum_groups
from ..values.hash_order import order_under_keys
from ..values.rows import Rows
from ..values.value_columns import Index
from .chosen_entries import ChosenEntries
from .present import leading, same_as_before


@dataclass(frozen=True, slots=True, eq=False)
class ChangedRows:
    """The changes of the rows of keys: the rows `at` some positions, each once, in order under its key, which is number
    `asked` of `keys`.
    """

    keys: Rows
    hashes: Hashes
    asked: Index
    rows: Rows
    at: Index
    weights: Numbers

    @classmethod
    def of(cls, change: Change, key: Sequence[int], orders: Sequence[Order]) -> ChangedRows | None:
        """The changes of a change; None where they cancel out."""
        hashes = change.rows.select(key).hashes()
        order = order_under_keys(change.rows, hashes, orders)
        weights, hashes = change.weights[order], hashes[order]
        same = (hashes[1:] == hashes[:-1]) & change.rows.same(order[1:], change.rows, order[:-1])
        if same.any():
            starts = group_starts(~same)
            order, weights, hashes = order[starts], sum_groups(weights, starts), hashes[starts]
        if not weights.all():
            there = np.flatnonzero(weights)
            order, weights, hashes = order[there], weights[there], hashes[there]
        if not len(order):
            return None
        keys = change.rows.select(key).take(order)
        other = np.concatenate([[0], np.cumsum(~same_as_before(hashes.view(np.int64), keys))])
        firsts = leading(other)
        return cls(keys.take(firsts), hashes[firsts], other, change.rows, order, weights)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def entries(self) -> ChosenEntries:
        return ChosenEntries(self.asked, self.rows, self.at, self.weights, ())

    def of_keys(self, keys: Index) -> ChangedRows:
        """The changes of some of the keys alone, in order."""
        if len(keys) == len(self.keys):
            return self
        positions = np.full(len(self.keys), -1)
        positions[keys] = np.arange(len(keys))
        which = np.flatnonzero(positions[self.asked] >= 0)
        asked = positions[self.asked[which]]
        return ChangedRows(
            self.keys.take(keys), self.hashes[keys], asked, self.rows, self.at[which], self.weights[which]
        )

    def only(self, key: int) -> ChangedRows:
        return self.of_keys(np.array([key]))

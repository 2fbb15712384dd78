"""The least or greatest values of keys, among values that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ...arrays.ordering import Order
from ..kept.arrangement import Arrangement
from ..kept.ordered_arrangement import OrderedArrangement, weighing
from ..kept.present import Present, leading, present
from .change import Change, ManyRounds, Numbers, Rounds
from .rows import Rows
from .value_columns import Column, Index

_WIDTH: Final = 4
"""The entries that are looked at first. Some may be undone by others."""


class Extremes:
    """The values of keys. Where no rounds are counted, values lie in order under their key, and few of them are looked
    at. Where rounds are counted, all values of a touched key are looked at.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[int], column: int, *, greatest: bool, depth: int) -> None:
        self.schema = pa.schema([*(schema.field(at) for at in key), schema.field(column)])
        self._columns = (*key, column)
        self._order = Order(column=len(key), descending=greatest)
        whole = range(len(key))
        self._ordered = None if depth else OrderedArrangement(self.schema.types, whole, [self._order], packs=True)
        self.values: Arrangement = self._ordered or Arrangement(
            self.schema.types, whole, depth=depth, orders=[self._order]
        )

    def insert(self, change: Change, keys: Rows) -> None:
        """Add the values of these rows, whose `keys` are given."""
        nulls = change.rows.columns[self._columns[-1]].nulls()
        if nulls is not None:
            there = np.flatnonzero(~nulls)
            change, keys = change.take(there), keys.take(there)
        self.values.insert_numbers(change.rows.select(self._columns), change.weights, change.rounds, keys)

    def sizes(self, keys: Rows) -> Numbers | None:
        """About the bytes of the values of each key that `of` looks at; None where they are few."""
        if not self.values.has_wide_rows:
            return None
        return self.values.sizes(keys) if self._ordered is None else self._ordered.first_sizes(keys, _WIDTH)

    def of(self, keys: Rows, rounds: Rounds) -> tuple[Column, tuple[Index, ManyRounds]]:
        """The value of each of different keys, null where it has none, and the history of their values."""
        first = self.values.first(keys, rounds, 1)
        if first is not None:
            return self._spread(first, len(keys)), self.values.later(keys, rounds)
        if self._ordered is not None:
            first = self._ordered.first_of(keys, _WIDTH, weighing(1))
            return self._spread(first, len(keys)), (first.asked[:0], ())
        matches = self.values.chosen(keys)
        return self._spread(present(matches, rounds, [self._order]), len(keys)), (matches.asked, matches.rounds)

    def _spread(self, values: Present, keys: int) -> Column:
        """A value for each key: the first of its values, or null."""
        firsts = leading(values.asked)
        asked, column = values.asked[firsts], values.rows.columns[-1].take(firsts)
        if len(asked) == keys:
            return column
        nothing = Rows.of_arrays([pa.nulls(1, self.schema.field(-1).type)], 1).columns[0]
        positions = np.full(keys, len(asked), dtype=np.int64)
        positions[asked] = np.arange(len(asked))
        return column.concat([nothing]).take(positions)

"""Top: the first rows of each key in an order, ties broken by all columns.

Confluent. State: all rows, in order under their key, and what was given out. Where no rounds are counted, only as many
rows of a touched key are looked at as are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..hashing import Hashes
from ..operator import StateReader, StateWriter
from ..ordering import Order
from .arrangement import Arrangement
from .change import Change, ManyRounds, Numbers, Rounds
from .codes import canonical_orders
from .columns import Index
from .keyed import Answer, Keyed
from .ordered import OrderedArrangement
from .present import Present, leading, present
from .rows import Rows
from .state import load_arrangement, save_arrangement

_FITS: Final = 1 << 62
"""Up to about so many copies places are int64."""


class Top(Keyed):
    """Of each key's rows in `orders`, those from number `offset` on, `count` of them; copies of a row count each.

    It gives out the key's columns, then all columns of the row.
    """

    def __init__(
        self, schema: pa.Schema, key: Sequence[int], orders: Sequence[Order], *, offset: int, count: int, depth: int = 0
    ) -> None:
        given = pa.schema([*(schema.field(at) for at in key), *schema])
        super().__init__(schema, key, given, depth=depth)
        self._orders = (*orders, *canonical_orders(len(schema)))
        self._from, self._to = offset, offset + count
        self._ordered = None if depth else OrderedArrangement(schema.types, key, orders)
        self._rows: Arrangement = self._ordered or Arrangement(schema.types, key, depth=depth)

    def save(self, state: StateWriter) -> None:
        super().save(state)
        save_arrangement(state, "rows", self._rows, self._input_schema)

    def load(self, state: StateReader) -> None:
        super().load(state)
        load_arrangement(state, "rows", self._rows, self._input_schema)

    @property
    def touched(self) -> int:
        return super().touched + self._rows.touched

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._rows.nbytes

    def _absorb(self, change: Change) -> None:
        self._rows.insert(change)

    def _answer(self, keys: Rows, hashes: Hashes, rounds: Rounds) -> Answer:
        if self._ordered is not None:
            rows = self._ordered.first(keys, hashes, self._to)
            history: tuple[Index, ManyRounds] = (rows.asked[:0], ())
        else:
            found = self._rows.find(keys, hashes)
            rows, history = present(found, rounds, self._orders), (found.asked, found.rounds)
        weights = self._within(rows)
        which = np.flatnonzero(weights)
        return Answer(rows.asked[which], rows.rows.take(which), weights[which], history)

    def _within(self, rows: Present) -> Numbers:
        """How many copies of each row are wanted."""
        if not len(rows.asked):
            return rows.weights
        if rows.weights.sum(dtype=np.float64) < _FITS:
            return _overlap(rows.asked, rows.weights, min(self._from, _FITS), min(self._to, _FITS))
        # More copies than 64 bits can count are counted exactly, in Python's numbers.
        return _overlap(rows.asked, rows.weights.astype(object), self._from, self._to).astype(np.int64)


def _overlap(asked: Index, weights: Numbers, start: int, stop: int) -> Numbers:
    """Of each row those copies that are between two places in their key's order."""
    ends = np.cumsum(weights)
    begins = ends - weights
    firsts = leading(asked)
    base = np.repeat(begins[firsts], np.diff(firsts, append=len(begins)))
    within: Numbers = np.minimum(ends - base, stop) - np.maximum(begins - base, start)
    return np.maximum(within, 0)

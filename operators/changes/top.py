"""Top: the first rows of each key in an order, ties broken by all columns.

Confluent. State: all rows, in order under their key, and the rows that were given out. Where no rounds are counted,
only the wanted rows of a touched key are looked at.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.ordering import Order
from .event_time.floor import Floor
from .kept.arrangement import Arrangement
from .kept.ordered_arrangement import OrderedArrangement, weighing
from .kept.present import Present, leading, present, same_as_before
from .keyed_operator import Answer, KeyedRows
from .values.change import ManyRounds, Numbers, Rounds
from .values.consolidate import group_starts
from .values.order_codes import canonical_orders
from .values.rows import Rows
from .values.value_columns import Index, Mask

_FITS: Final = 1 << 62
"""Up to about so many copies positions are int64."""


class Counting(enum.Enum):
    """The way to find the last row of a top: by rows, by the rows ahead of a row and its ties, or by different ties."""

    ROWS = "rows"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


class Top(KeyedRows):
    """The operator. It gives, of each key's rows in `orders`, `count` rows from number `offset` on; each copy of a row
    counts. Where ranks are counted, it also gives the rows that tie with the last one in `orders`, or `count` ties.

    It gives out the key's columns, then all columns of the row.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: Sequence[int],
        orders: Sequence[Order],
        *,
        offset: int,
        count: int,
        counting: Counting = Counting.ROWS,
        depth: int = 0,
        floor: Floor | None = None,
    ) -> None:
        answer_schema = pa.schema([*(schema.field(at) for at in key), *schema])
        self._ordered = None if depth else OrderedArrangement(schema.types, key, orders)
        kept = self._ordered or Arrangement(schema.types, key, depth=depth)
        super().__init__(schema, key, answer_schema, kept, depth=depth, floor=floor)
        self._orders = (*orders, *canonical_orders(len(schema)))
        self._from, self._to = offset, offset + count
        self._width = 2 * self._to + 2
        """The rows of a key at which a look-up begins."""
        self._counting = counting
        self._tied = tuple(order.column for order in orders)

    def _sizes(self, keys: Rows) -> Numbers | None:
        if not self._rows.has_wide_rows:
            return super()._sizes(keys)
        return self._rows.sizes(keys) if self._ordered is None else self._ordered.first_sizes(keys, self._width)

    def _answer(self, keys: Rows, rounds: Rounds) -> Answer:
        if self._ordered is not None:
            rows = self._ordered.first_of(keys, self._width, self._enough)
            history: tuple[Index, ManyRounds] = (rows.asked[:0], ())
        else:
            matches = self._rows.chosen(keys)
            rows, history = present(matches, rounds, self._orders), (matches.asked, matches.rounds)
        weights = self._within(rows)
        if weights.all():
            return Answer(rows.asked, rows.rows, weights, history)
        which = np.flatnonzero(weights)
        return Answer(rows.asked[which], rows.rows.take(which), weights[which], history)

    def _enough(self, rows: Present, keys: int) -> Mask:
        if self._counting is Counting.ROWS:
            return weighing(self._to)(rows, keys)
        enough = np.zeros(keys, dtype=np.bool_)
        enough[rows.asked[self._ranks(rows, _countable(rows.weights)) >= self._to]] = True
        return enough

    def _within(self, rows: Present) -> Numbers:
        """The number of wanted copies of each row."""
        if not len(rows.asked):
            return rows.weights
        weights = _countable(rows.weights)
        if weights is rows.weights:
            return self._overlap(rows, weights, min(self._from, _FITS), min(self._to, _FITS))
        return self._overlap(rows, weights, self._from, self._to).astype(np.int64)

    def _overlap(self, rows: Present, weights: Numbers, start: int, stop: int) -> Numbers:
        """The number of copies of each row between two positions in their key's order."""
        begins = _begins(rows.asked, weights)
        ends = begins + weights
        if self._counting is Counting.ROWS:
            within: Numbers = np.minimum(ends, stop) - np.maximum(begins, start)
        else:
            within = np.where(self._ranks(rows, weights) < stop, ends - np.maximum(begins, start), 0)
        return np.maximum(within, 0)

    def _ranks(self, rows: Present, weights: Numbers) -> Numbers:
        """The number of rows of the key, or of different ties, ahead of each row and its ties."""
        if not len(rows.asked):
            return weights
        ties = group_starts(~same_as_before(rows.asked, rows.rows.select(self._tied)))
        sizes = np.diff(ties, append=len(rows.asked))
        if self._counting is Counting.RANK:
            return np.repeat(_begins(rows.asked, weights)[ties], sizes)
        numbers = np.arange(len(ties))
        firsts = leading(rows.asked[ties])
        numbers -= np.repeat(firsts, np.diff(firsts, append=len(ties)))
        return np.repeat(numbers, sizes)


def _countable(weights: Numbers) -> Numbers:
    """The same weights, as Python integers where the copies are more than 64 bits can count."""
    return weights if weights.sum(dtype=np.float64) < _FITS else weights.astype(object)


def _begins(asked: Index, weights: Numbers) -> Numbers:
    """The number of rows of the key ahead of each row, with copies."""
    begins: Numbers = np.cumsum(weights) - weights
    firsts = leading(asked)
    return begins - np.repeat(begins[firsts], np.diff(firsts, append=len(begins)))

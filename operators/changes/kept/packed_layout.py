"""The layout of packed entries: whole numbers and rounds as one word, in an order of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...arrays.ordering import Order
from ..values.change import ManyRounds, Numbers, Rounds
from ..values.rows import Rows
from ..values.value_columns import Column, FixedColumn, Index, Mask, empty_column
from .packed_key_domain import PackedKeyDomain, packable


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a word: `columns` by their position in a row, of which the first `keys` are the key, then `depth`
    rounds. The order of columns that are `descending` is reversed.
    """

    columns: tuple[int, ...]
    descending: tuple[bool, ...]
    keys: int
    depth: int

    @classmethod
    def of(cls, types: Sequence[pa.DataType], key: Sequence[int], orders: Sequence[Order], depth: int) -> Form | None:
        """The form of rows by their key, and under a key in these orders and then by all columns; None where rows of
        these types are never words.
        """
        if not types or not all(map(packable, types)) or len(set(key)) < len(key):
            return None
        descending = dict.fromkeys(key, False)
        for order in orders:
            descending.setdefault(order.column, order.descending)
        for at in range(len(types)):
            descending.setdefault(at, False)
        return cls(tuple(descending), tuple(descending.values()), len(key), depth)

    def in_word_order(self, rows: Rows, rounds: ManyRounds) -> Rows:
        """Rows without nulls in the order of a word's columns, with the rounds as columns."""
        columns: list[Column] = []
        for at, down in zip(self.columns, self.descending, strict=True):
            values = rows.columns[at].values  # type: ignore[attr-defined]
            columns.append(FixedColumn(~values if down else values))
        return Rows([*columns, *map(FixedColumn, rounds)], len(rows))


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of the words of a form whose columns have these ranges."""

    form: Form
    domain: PackedKeyDomain

    @classmethod
    def of(cls, form: Form, lows: tuple[int, ...], bits: tuple[int, ...], types: Sequence[pa.DataType]) -> Layout:
        """A layout of a known domain, of rows of these types."""
        columns = [empty_column(types[at]) for at in form.columns]
        dtypes = tuple(column.values.dtype for column in columns if isinstance(column, FixedColumn))
        return cls(form, PackedKeyDomain(lows, bits, (*dtypes, *(np.dtype(np.int64),) * form.depth)))

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        bits = self.domain.bits
        return tuple(sum(bits[at + 1 :]) for at in range(len(bits)))

    @cached_property
    def key_shift(self) -> int:
        return sum(self.domain.bits[self.form.keys :])

    @cached_property
    def key_bits(self) -> int:
        return sum(self.domain.bits[: self.form.keys])

    @cached_property
    def round_bits(self) -> int:
        return sum(self.domain.bits[len(self.form.columns) :])

    def rows(self, words: Numbers, columns: Sequence[int] | None = None) -> Rows:
        """The rows of words, with these columns, or with all."""
        form = self.form
        positions = {at: position for position, at in enumerate(form.columns)}
        wanted = range(len(form.columns)) if columns is None else columns
        restored = []
        for at in wanted:
            position = positions[at]
            values = self._values(words, position).astype(self.domain.dtypes[position], copy=False)
            restored.append(FixedColumn(~values if form.descending[position] else values))
        return Rows(restored, len(words))

    def keys(self, words: Numbers) -> Rows:
        """The keys of words."""
        return Rows([FixedColumn(self._values(words, at)) for at in range(self.form.keys)], len(words))

    def rounds(self, words: Numbers) -> ManyRounds:
        start = len(self.form.columns)
        return tuple(self._values(words, position) for position in range(start, start + self.form.depth))

    def counts_at(self, words: Numbers, time: Rounds) -> Mask:
        """True for each entry that counts for the state at this time."""
        start = len(self.form.columns)
        counts = self._values(words, start) <= time[0]
        for position, number in enumerate(time[1:], start + 1):
            counts &= self._values(words, position) <= number
        return counts

    def laid_out_as(self, other: Layout, words: Numbers) -> Numbers:
        """The words of the same entries, in the same order, in another layout that has room for them."""
        packed = np.zeros(len(words), dtype=np.int64)
        for position, (low, shift) in enumerate(zip(other.domain.lows, other.shifts, strict=True)):
            packed |= (self._values(words, position) - low) << shift
        return packed

    def key_words(self, keys: Rows) -> tuple[Index | None, Numbers]:
        """The least word that each key may have, and the keys that have one: None if all do."""
        inside: Mask | None = None
        words = np.zeros(len(keys), dtype=np.int64)
        for position, column in enumerate(keys.columns):
            assert isinstance(column, FixedColumn)
            bits = self.domain.bits[position]
            offsets = column.values.astype(np.int64, copy=False) - self.domain.lows[position]
            fits = offsets.view(np.uint64) >> bits == 0
            if (nulls := column.nulls()) is not None:
                fits &= ~nulls
            if np.count_nonzero(fits) < len(fits):
                inside = fits if inside is None else inside & fits
            words |= offsets << self.shifts[position]
        if inside is None:
            return None, words
        which = inside.nonzero()[0]
        return which, words.take(which)

    def key_word(self, key: Rows) -> int | None:
        """`key_words` of a single key, as fast as possible; None if it has no word."""
        word = 0
        for column, low, bits, shift in zip(key.columns, self.domain.lows, self.domain.bits, self.shifts, strict=False):
            assert isinstance(column, FixedColumn)
            offset = column.values.item() - low
            nulls = column.nulls()
            if offset < 0 or offset >> bits or (nulls is not None and nulls.item()):
                return None
            word |= offset << shift
        return word

    def _values(self, words: Numbers, position: int) -> Numbers:
        values: Numbers = words >> self.shifts[position] if self.shifts[position] else words
        if position:
            values = values & ((1 << self.domain.bits[position]) - 1)
        return values + self.domain.lows[position] if self.domain.lows[position] else values

"""Rows: columns of one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from ....proto.arrow.shown_values import shown_row
from ...arrays.hashing import Hashes, combine_hashes
from ...core.batches import batch_of
from ...core.interrupts import MANY, beside, look
from .scattered_column import is_wide, scattered
from .value_columns import ArrowColumn, Column, Index, Mask, column, empty_column

_COMPARED: Final = 1 << 18
"""The rows that are compared at once."""
_LITTLE: Final = 1 << 16
_LONGEST: Final = 300
"""The most characters of a row in a message."""


class Rows:
    """Immutable rows. Equal rows have equal hashes; nulls equal each other. A row without columns is a row, too."""

    __slots__ = ("_hashes", "columns", "count")

    def __init__(self, columns: Sequence[Column], count: int, hashes: Hashes | None = None) -> None:
        """`hashes` may be given where the rows' hashes are known."""
        self.columns = tuple(columns)
        self.count = count
        self._hashes = hashes

    def __len__(self) -> int:
        return self.count

    @classmethod
    def empty(cls, types: Iterable[pa.DataType]) -> Rows:
        return cls([empty_column(type_) for type_ in types], 0)

    @classmethod
    def of_arrays(cls, arrays: Sequence[pa.Array], count: int) -> Rows:
        return cls([column(array) for array in arrays], count)

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch) -> Rows:
        return cls.of_arrays(batch.columns, batch.num_rows)

    @classmethod
    def concat(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, of which there is at least one."""
        filled = [part for part in parts if part.count]
        if len(filled) <= 1:
            return filled[0] if filled else parts[0]
        count = sum(part.count for part in filled)
        return cls(beside(lambda: _concatenated(filled), count), count)

    @classmethod
    def scattered(cls, parts: Sequence[Rows]) -> Rows | None:
        """`concat` that leaves wide values where they are: each part stays in memory as long as the rows do. None where
        no values are wide.
        """
        filled = [part for part in parts if part.count]
        by_column = list(zip(*(part.columns for part in filled), strict=True))
        if not any(map(is_wide, by_column)):
            return None
        columns: list[Column] = [
            scattered(column) if is_wide(column) else column[0].concat(column[1:]) for column in by_column
        ]
        return cls(columns, sum(part.count for part in filled))

    def take(self, rows: Index) -> Rows:
        count = len(rows)
        if count < MANY:
            look()
            return Rows([one.take(rows) for one in self.columns], count)
        return Rows(beside(lambda: [one.take(rows) for one in self.columns], count), count)

    def part(self, which: slice) -> Rows:
        """A stretch of the rows, which are not copied, with their hashes where these are known."""
        hashes = None if self._hashes is None else self._hashes[which]
        return Rows([one.take(which) for one in self.columns], len(range(self.count)[which]), hashes)

    def filter(self, kept: Mask) -> Rows:
        return self.take(np.flatnonzero(kept))

    def select(self, columns: Iterable[int]) -> Rows:
        chosen = tuple(columns)
        if chosen == tuple(range(len(self.columns))):
            return self
        return Rows([self.columns[at] for at in chosen], self.count)

    def hashed(self, hashes: Hashes) -> Rows:
        """The same rows, with these as their hashes."""
        return Rows(self.columns, self.count, hashes)

    def beside(self, other: Rows) -> Rows:
        """Rows with these columns, then the columns of the other rows."""
        return Rows((*self.columns, *other.columns), self.count)

    def hashes(self) -> Hashes:
        if self._hashes is None:
            self._hashes = beside(self._hash, self.count)
        return self._hashes

    def _hash(self) -> Hashes:
        if not self.columns:
            return np.zeros(self.count, dtype=np.uint64)
        first, *others = self.columns
        hashes = first.hashes()
        for other in others:
            hashes = combine_hashes(hashes, other.hashes())
        return hashes

    def same(self, rows: Index, other: Rows, others: Index) -> Mask:
        """True for each pair in which one of these `rows` equals one of the other's rows `others`."""
        if not self.columns:
            return np.ones(len(rows), dtype=np.bool_)
        if len(rows) <= _COMPARED:
            return beside(lambda: self._same(rows, other, others), len(rows))
        starts = range(0, len(rows), _COMPARED)
        return np.concatenate([self.same(rows[a : a + _COMPARED], other, others[a : a + _COMPARED]) for a in starts])

    def _same(self, rows: Index, other: Rows, others: Index) -> Mask:
        pairs = zip(self.columns, other.columns, strict=True)
        same, *more = (mine.same(rows, theirs, others) for mine, theirs in pairs)
        for one in more:
            same &= one
        return same

    def without_nulls(self) -> Mask | None:
        """True for each row without a null; None if no row has one."""
        nulls = [mask for one in self.columns if (mask := one.nulls()) is not None]
        return ~np.logical_or.reduce(nulls) if nulls else None

    def to_arrays(self, types: Iterable[pa.DataType]) -> list[pa.Array]:
        return [one.to_arrow(type_) for one, type_ in zip(self.columns, types, strict=True)]

    def described(self, schema: pa.Schema, at: int) -> str:
        """The values of row number `at` for a message, cut where they are long."""
        text = shown_row([array[0] for array in self.take(np.array((at,))).to_arrays(schema.types)])
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    def to_batch(self, schema: pa.Schema, *more: pa.Array) -> pa.RecordBatch:
        """A batch of `schema`, whose last columns are `more`."""
        types = schema.types[: len(self.columns)]
        return batch_of([*self.to_arrays(types), *more], self.count, schema)

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.columns)

    @property
    def long_bytes(self) -> int:
        """The bytes of the columns whose values may be of any length."""
        return sum(one.nbytes for one in self.columns if isinstance(one, ArrowColumn))

    @property
    def quick_long_bytes(self) -> int:
        """`long_bytes`, or what their buffers take where that is little: in a tenth of the time."""
        size = sum(one.array.get_total_buffer_size() for one in self.columns if isinstance(one, ArrowColumn))
        return size if size <= _LITTLE else self.long_bytes


def joined(parts: list[Rows]) -> Rows:
    """The rows of all parts, of which there is at least one. The list is emptied, and each column is let go of before
    the next one is joined: rows may be long.
    """
    filled = [part for part in parts if part.count] or parts[:1]
    parts.clear()
    if len(filled) == 1:
        return filled[0]
    count = sum(part.count for part in filled)
    columns = [[part.columns[at] for part in filled] for at in range(len(filled[0].columns))]
    filled.clear()

    def next_joined(column: list[Column]) -> Column:
        first, *others = column
        column.clear()
        return first.concat(others)

    return Rows([beside(partial(next_joined, column), count) for column in columns], count)


def taken(handed: list[Rows], at: Index) -> Rows:
    """The rows at these positions of the only rows in the list. It is emptied, and each column is let go of before the
    next one is moved.
    """
    rest = list(reversed(handed.pop().columns))
    count = len(at)
    return Rows([beside(lambda: rest.pop().take(at), count) for _ in range(len(rest))], count)


def _concatenated(parts: Sequence[Rows]) -> list[Column]:
    first, *others = parts
    return [mine.concat([part.columns[at] for part in others]) for at, mine in enumerate(first.columns)]

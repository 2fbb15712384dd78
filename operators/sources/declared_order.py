"""The order that a plan declares for a source, checked against the source's rows as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...proto.errors import InternalError, SplitError
from ..arrays.ordering import Key, Order, Ordering, obstacle
from ..core.piece import Piece
from .formats.matching import describe


@dataclass(frozen=True, slots=True)
class _Row:
    """The last row that was checked, kept for the error message in case the next row comes before it."""

    key: Key
    piece: Piece
    number: int
    values: str


class DeclaredOrder:
    """The check of a declared order. After `begin`, `check` takes an epoch's batches in turn. It raises `SplitError` at
    the first row that comes before the row ahead of it, also where the two rows are in different splits.
    """

    def __init__(self, source: str, schema: pa.Schema, orders: Sequence[Order]) -> None:
        for order in orders:
            reason = obstacle(schema.field(order.column).type)
            if reason is not None:
                raise InternalError(f"source {source!r} cannot be sorted by column {order.column}: {reason}")
        self._source = source
        self._schema = schema
        self._ordering = Ordering(orders)
        self._last: _Row | None = None

    def begin(self) -> None:
        self._last = None

    def check(self, batch: pa.RecordBatch, piece: Piece, first_row: int) -> None:
        """Check a batch. `first_row` is the number of the batch's first row in its piece's file or split."""
        keys = self._ordering.keys(batch)
        if self._last is not None and keys.at(0) < self._last.key:
            raise self._broken(self._last, self._row(batch, keys.at(0), piece, 0, first_row))
        broken = keys.first_break()
        if broken is not None:
            earlier, later = (
                self._row(batch, keys.at(row), piece, row, first_row + row) for row in (broken - 1, broken)
            )
            raise self._broken(earlier, later)
        last = batch.num_rows - 1
        self._last = self._row(batch, keys.at(last), piece, last, first_row + last)

    def _row(self, batch: pa.RecordBatch, key: Key, piece: Piece, at: int, number: int) -> _Row:
        columns = [order.column for order in self._ordering.orders]
        values = ", ".join(f"{self._schema.field(i).name}={batch.column(i)[at].as_py()!r}" for i in columns)
        return _Row(key, piece, number, values)

    def _broken(self, earlier: _Row, later: _Row) -> SplitError:
        wanted = ", ".join(
            f"{self._schema.field(order.column).name!r} {'descending' if order.descending else 'ascending'}"
            f" nulls {'first' if order.nulls_first else 'last'}"
            for order in self._ordering.orders
        )
        where = "" if earlier.piece is later.piece else f" of {describe(earlier.piece)}"
        return SplitError(
            f"{describe(later.piece)}: source {self._source!r} is declared to be sorted by {wanted}, but row "
            f"{later.number} ({later.values}) comes after row {earlier.number}{where} ({earlier.values}); rows count "
            "from 0: sort the rows, or declare no order",
            reason="INPUT_NOT_SORTED",
        )

"""The order that a plan declares for a source, checked against the source's rows as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...proto.arrow.shown_values import shown
from ...proto.errors import InternalError, SplitError
from ..arrays.ordering import Key, Order, Ordering, obstacle
from ..core.piece import Piece
from .formats.matching import describe


@dataclass(frozen=True, slots=True)
class _Row:
    """A row at an end of a batch, as the error message shows it."""

    key: Key
    piece: Piece
    number: int
    values: str


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last row of a batch whose rows are in order."""

    first: _Row
    last: _Row


class DeclaredOrder:
    """The check of a declared order, in two parts: `ends` checks the rows of one batch, on any thread; `follow` takes
    the ends of an epoch's batches in turn, after `begin`. Each raises `SplitError` at the first row that comes before
    the row ahead of it, also where the two rows are in different splits.
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

    def ends(self, batch: pa.RecordBatch, piece: Piece, first_row: int) -> Ends:
        """Check a batch. `first_row` is the number of the batch's first row in its piece's file or split."""
        keys = self._ordering.keys(batch)

        def row(at: int) -> _Row:
            return self._row(batch, keys.at(at), piece, at, first_row + at)

        broken = keys.first_break()
        if broken is not None:
            raise self._broken(row(broken - 1), row(broken))
        return Ends(row(0), row(batch.num_rows - 1))

    def follow(self, ends: Ends) -> None:
        """Check a batch's first row against the last row of the batch before it."""
        if self._last is not None and ends.first.key < self._last.key:
            raise self._broken(self._last, ends.first)
        self._last = ends.last

    def _row(self, batch: pa.RecordBatch, key: Key, piece: Piece, at: int, number: int) -> _Row:
        columns = [order.column for order in self._ordering.orders]
        values = ", ".join(f"{self._schema.field(i).name}={shown(batch.column(i)[at])}" for i in columns)
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

"""An epoch's result in the client's hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from .holding import Holding
from .proto.errors import CheckpointError, EpochError, Refused
from .proto.statistics import EpochStatistics
from .proto.values import Barrier, Cursor

Moved = Callable[[Cursor, Cursor | None], None]


class Epoch:
    """One epoch, complete: its rows are final. `table()` may be repeated; iterating consumes.

    Speaks the Arrow C stream protocol, so that pandas, polars and DuckDB take it directly. An epoch that was skipped
    has `error` set and no rows to give: reading it raises that `EpochError`.
    """

    def __init__(self, barrier: Barrier, holding: Holding, start: Cursor, moved: Moved) -> None:
        self._barrier = barrier
        self._holding = holding
        self._cursor = start
        self._moved = moved
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._closed = False

    @property
    def number(self) -> int:
        return self._barrier.epoch

    @property
    def statistics(self) -> EpochStatistics:
        return self._barrier.statistics

    @property
    def watermark(self) -> int | None:
        return self._barrier.watermark

    @property
    def error(self) -> EpochError | None:
        """Why the epoch was skipped (`on_error="skip_epoch"`), or nothing."""
        if self._barrier.error is None:
            return None
        error = self._barrier.error
        return EpochError(error.message, epoch=self.number, reason=error.reason)

    @property
    def checkpoint(self) -> str | None:
        """The id of the checkpoint that was asked for at its barrier; raises `CheckpointError` where that failed."""
        if (failure := self._barrier.checkpoint_error) is not None:
            raise CheckpointError(failure.message, reason=failure.reason)
        return self._barrier.checkpoint

    @property
    def schema(self) -> pa.Schema:
        return self._holding.schema

    @property
    def rows(self) -> int:
        """How many rows were read of the epoch: all of them, unless reading began in its middle."""
        return self._holding.rows

    def table(self) -> pa.Table:
        """All rows, as often as one likes; refused once iteration has consumed some."""
        table = pa.Table.from_batches(list(self._readable().batches()), self.schema)
        self._move(Cursor(self.number + 1, 0))
        return table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, each given back to the server (acknowledged) when the next one is pulled."""
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._batches is None:
            self._batches = self._readable().drain()
        given = None if self._cursor == Cursor(self.number + 1, 0) else self._cursor
        batch = next(self._batches, None)
        if batch is None:
            self._move(Cursor(self.number + 1, 0))
            raise StopIteration
        self._move(Cursor(self.number, self._cursor.row + batch.num_rows), given)
        return batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        batches = list(self._readable().batches())
        self._move(Cursor(self.number + 1, 0))
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)

    def _readable(self) -> Holding:
        if (error := self.error) is not None:
            raise error
        if self._closed or self._batches is not None:
            raise Refused(f"epoch {self.number} has been consumed; call table() before iterating", reason="CONSUMED")
        return self._holding

    def _move(self, cursor: Cursor, given: Cursor | None = None) -> None:
        self._cursor = max(cursor, self._cursor)
        self._moved(self._cursor, given)

    def close(self) -> None:
        """Give back what the epoch holds; done by itself when the epoch is forgotten."""
        self._closed = True
        self._holding.close()

    def __repr__(self) -> str:
        error = f", error={self._barrier.error.message!r}" if self._barrier.error else ""
        return f"<tidegate.Epoch {self.number}: {self.rows:,} rows{error}>"

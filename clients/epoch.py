"""The result of one epoch, as the client reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa

from .batch_reader import Batches, Part
from .proto.arrow.spill_buffer import SpillBuffer, SpillRoom
from .proto.errors import CheckpointError, EpochError, Refused
from .proto.statistics import EpochStatistics
from .proto.values import GIB, Barrier, Cursor, Data, Frame

HOLD_BYTES: Final = GIB
_ROOM: Final = SpillRoom(None, rows="rows of an epoch")


class Reader(Protocol):
    """The task that an epoch is read from."""

    def read_on(self, epoch: Epoch) -> None:
        """Wait for more frames and hand them to the epoch.

        Raises `Refused` if the task has gone on without the epoch.
        """
        ...

    def moved(self, cursor: Cursor, done: Cursor, *, now: bool) -> None:
        """Record that an epoch's reader has come to `cursor`, and is done with everything before `done`.

        With `now`, acknowledge at once, because no other call will.
        """
        ...


class Epoch:
    """The result of one epoch: iterate it for batches as they are made, or call `table()`, which waits for the end.

    Iterating consumes; `table()` may be repeated. Rows are final once the epoch is complete. Everything that depends on
    its end (`table()`, `statistics`, `rows`, `error`, `checkpoint`) waits for it. If the epoch fails, iterating raises
    at that place, and the rows that came before are void.

    An epoch has the Arrow C stream protocol, so pandas, polars and DuckDB read it directly. An epoch that was skipped
    has `error` set and no rows: reading it raises that `EpochError`.

    >>> epoch = task.run_epoch({"sales": "sales.parquet"})
    >>> epoch.number, epoch.rows, epoch.statistics.rows_in
    (1, 2, 3)
    >>> for batch in epoch:
    ...     print(batch.to_pylist())
    [{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 7}]
    """

    def __init__(self, reader: Reader, start: Cursor, schema: pa.Schema, hold_bytes: float) -> None:
        self._reader = reader
        self._start = self._cursor = self._done = start
        self._run = start.run
        self._schema = schema
        self._held = SpillBuffer(_ROOM, hold_bytes, mapped=True)
        self._barrier: Barrier | None = None
        self._iterated = False
        self._closed = False

    @property
    def number(self) -> int:
        """The number of the epoch, from 1."""
        return self._start.epoch

    @property
    def cursor(self) -> Cursor:
        """The position of the first row that has not been handed out."""
        return self._cursor

    @property
    def complete(self) -> bool:
        """True once the epoch's barrier has been read. Does not wait."""
        return self._barrier is not None

    @property
    def untouched(self) -> bool:
        """True if no row of it was handed out. Does not wait."""
        return not (self._iterated or self._closed)

    @property
    def statistics(self) -> EpochStatistics:
        """The epoch's counters, from its barrier. Waits for the end."""
        return self._ended().statistics

    @property
    def watermark(self) -> int | None:
        """The result's watermark at the barrier; None if there is none. Waits for the end."""
        return self._ended().watermark

    @property
    def error(self) -> EpochError | None:
        """The error for which the epoch was skipped (`on_error="skip_epoch"`), or None."""
        error = self._ended().error
        return None if error is None else EpochError(error.message, epoch=self.number, reason=error.reason)

    @property
    def checkpoint(self) -> str | None:
        """The id of the checkpoint at its barrier, if one was asked for. Raises `CheckpointError` if that failed."""
        barrier = self._ended()
        if (failure := barrier.checkpoint_error) is not None:
            raise CheckpointError(failure.message, reason=failure.reason)
        return barrier.checkpoint

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows. Does not wait."""
        return self._schema

    @property
    def rows(self) -> int:
        """The number of rows that were read: all rows of the epoch, unless reading began in its middle."""
        self._ended()
        return self._held.rows

    def table(self) -> pa.Table:
        """All rows, any number of times. Refused once iteration has consumed some."""
        return pa.Table.from_batches(self._all(), self.schema)

    def batches(self, rows: int | None = None, *, prefetch: int = 0) -> Batches:
        """The rows in batches of `rows`, the last one short, or as they come. Consumes, as iterating does.

        With `prefetch`, a thread reads up to so many batches ahead.
        """
        return Batches(iter((Part(self),)), rows, prefetch)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches. Asking for the next batch acknowledges the one before."""
        return self

    def __next__(self) -> pa.RecordBatch:
        self.asked()
        batch = self.take()
        if batch is None:
            self.hand_out(None)
            raise StopIteration
        self.hand_out(batch.num_rows)
        return batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._all()).__arrow_c_stream__(requested_schema)

    # Frames that were read, and the reader's position

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None at the end. It counts as handed out only after `hand_out`."""
        if self._closed:
            raise self._consumed()
        self._iterated = True
        while (batch := self._held.pop()) is None:
            if self._barrier is not None:
                if (error := self.error) is not None:
                    raise error
                return None
            self._reader.read_on(self)
        return batch

    def hand_out(self, rows: int | None) -> None:
        """Record that the user has `rows` rows more, or all rows if None."""
        end = Cursor(self.number + 1, 0)
        self._move(end if rows is None else Cursor(self.number, self._cursor.row + rows, self._run))

    def asked(self) -> None:
        """Record that the user is done with the rows that were handed out."""
        if self._done != self._cursor:
            self._done = self._cursor
            self._reader.moved(self._cursor, self._done, now=self.complete and self._cursor.epoch == self.number)

    def finish(self) -> None:
        """Read the rest of the epoch, so that the task can go on to the next one."""
        while self._barrier is None:
            self._reader.read_on(self)

    def took(self, frames: Sequence[Frame]) -> None:
        """Take the frames that the task has read."""
        for frame in frames:
            if isinstance(frame, Data):
                self._run = frame.cursor.run  # the same one from the first row on: the server refuses to mix runs
                for batch in () if self._closed else frame.batches:
                    self._held.add(batch)
            if isinstance(frame, Barrier):
                self._barrier = frame
                self._held.seal()
                if frame.error is not None:  # its rows are void
                    self._held.close()

    def _all(self) -> list[pa.RecordBatch]:
        if self._closed or self._iterated:
            raise self._consumed()
        if (error := self.error) is not None:
            raise error
        batches = list(self._held.batches())
        self._move(Cursor(self.number + 1, 0))
        return batches

    def _ended(self) -> Barrier:
        self.finish()
        if self._barrier is None:
            raise AssertionError("an epoch ended without its barrier")
        return self._barrier

    def _consumed(self) -> Refused:
        return Refused(f"epoch {self.number} has been consumed; call table() before iterating", reason="CONSUMED")

    def _move(self, cursor: Cursor) -> None:
        self._cursor = max(cursor, self._cursor)
        self._reader.moved(self._cursor, self._done, now=False)

    def close(self) -> None:
        """Release the epoch's memory and file. Happens by itself when the epoch is forgotten."""
        self._closed = True
        self._held.close()

    def __repr__(self) -> str:
        if self._barrier is None:
            return f"<tidegate.Epoch {self.number}: not complete>"
        error = f", error={self._barrier.error.message!r}" if self._barrier.error else ""
        return f"<tidegate.Epoch {self.number}: {self._held.rows:,} rows{error}>"

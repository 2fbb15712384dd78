"""An epoch's result in the client's hands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from .batch_reader import Batches, Part
from .proto.errors import CheckpointError, EpochError, Refused
from .proto.statistics import EpochStatistics
from .proto.values import Barrier, Cursor, Data, Frame
from .transport.holding import Holding


class Reader(Protocol):
    """The task that an epoch is read of."""

    def read_on(self, epoch: Epoch) -> None:
        """Wait for what follows and hand it to the epoch. Refused where the task has gone on without it."""
        ...

    def moved(self, cursor: Cursor, done: Cursor, *, now: bool) -> None:
        """An epoch's reader has come to `cursor`, and is done with what lies before `done`: to be said `now` where no
        other call will.
        """
        ...


class Epoch:
    """One epoch: iterate it for its batches as they are made, or take `table()`, which waits for its end.

    Iterating consumes; `table()` may be repeated. Rows are final once the epoch is complete: whatever tells of its end
    (`table()`, `statistics`, `rows`, `error`, `checkpoint`) waits for that. Where it fails, iterating raises at that
    place, and the rows that came before are void.

    Speaks the Arrow C stream protocol, so that pandas, polars and DuckDB take it directly. An epoch that was skipped
    has `error` set and no rows to give: reading it raises that `EpochError`.
    """

    def __init__(self, reader: Reader, start: Cursor, schema: pa.Schema, hold_bytes: float) -> None:
        self._reader = reader
        self._start = self._cursor = self._done = start
        self._holding = Holding(schema, hold_bytes)
        self._barrier: Barrier | None = None
        self._iterated = False
        self._closed = False

    @property
    def number(self) -> int:
        return self._start.epoch

    @property
    def cursor(self) -> Cursor:
        """Where the rows that have not been handed out begin."""
        return self._cursor

    @property
    def complete(self) -> bool:
        """Whether its barrier has been read. Does not wait."""
        return self._barrier is not None

    @property
    def untouched(self) -> bool:
        """Whether nothing of it was handed out. Does not wait."""
        return not (self._iterated or self._closed)

    @property
    def statistics(self) -> EpochStatistics:
        return self._ended().statistics

    @property
    def watermark(self) -> int | None:
        return self._ended().watermark

    @property
    def error(self) -> EpochError | None:
        """Why the epoch was skipped (`on_error="skip_epoch"`), or nothing."""
        error = self._ended().error
        return None if error is None else EpochError(error.message, epoch=self.number, reason=error.reason)

    @property
    def checkpoint(self) -> str | None:
        """The id of the checkpoint that was asked for at its barrier; raises `CheckpointError` where that failed."""
        barrier = self._ended()
        if (failure := barrier.checkpoint_error) is not None:
            raise CheckpointError(failure.message, reason=failure.reason)
        return barrier.checkpoint

    @property
    def schema(self) -> pa.Schema:
        return self._holding.schema

    @property
    def rows(self) -> int:
        """How many rows were read of the epoch: all of them, unless reading began in its middle."""
        self._ended()
        return self._holding.rows

    def table(self) -> pa.Table:
        """All rows, as often as one likes; refused once iteration has consumed some."""
        return pa.Table.from_batches(self._all(), self.schema)

    def batches(self, rows: int | None = None, *, prefetch: int = 0) -> Batches:
        """The rows in batches of `rows`, the last one short, or as they come. Consumes, as iterating does.

        With `prefetch`, a thread reads up to so many batches ahead.
        """
        return Batches(iter((Part(self),)), rows, prefetch)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, each given back to the server (acknowledged) once the next one is asked for."""
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

    # What is read of it, and what its reader has come to

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None at the end. It counts as handed out only when `hand_out` says so."""
        if self._closed:
            raise self._consumed()
        self._iterated = True
        while (batch := self._holding.take()) is None:
            if self._barrier is not None:
                if (error := self.error) is not None:
                    raise error
                return None
            self._reader.read_on(self)
        return batch

    def hand_out(self, rows: int | None) -> None:
        """The user has so many rows more; None: all."""
        end = Cursor(self.number + 1, 0)
        self._move(end if rows is None else Cursor(self.number, self._cursor.row + rows))

    def asked(self) -> None:
        """The user is done with what was handed out."""
        if self._done != self._cursor:
            self._done = self._cursor
            self._reader.moved(self._cursor, self._done, now=self.complete and self._cursor.epoch == self.number)

    def finish(self) -> None:
        """Read what is left of it, so that the task can go on to the next one."""
        while self._barrier is None:
            self._reader.read_on(self)

    def took(self, frames: Sequence[Frame]) -> None:
        """What the task has read of it."""
        for frame in frames:
            if isinstance(frame, Data):
                for batch in () if self._closed else frame.batches:
                    self._holding.append(batch)
            if isinstance(frame, Barrier):
                self._barrier = frame
                self._holding.finish()
                if frame.error is not None:  # its rows are void
                    self._holding.close()

    def _all(self) -> list[pa.RecordBatch]:
        if self._closed or self._iterated:
            raise self._consumed()
        if (error := self.error) is not None:
            raise error
        batches = list(self._holding.batches())
        self._move(Cursor(self.number + 1, 0))
        return batches

    def _ended(self) -> Barrier:
        self.finish()
        if self._barrier is None:
            raise AssertionError("an epoch has ended without its barrier")
        return self._barrier

    def _consumed(self) -> Refused:
        return Refused(f"epoch {self.number} has been consumed; call table() before iterating", reason="CONSUMED")

    def _move(self, cursor: Cursor) -> None:
        self._cursor = max(cursor, self._cursor)
        self._reader.moved(self._cursor, self._done, now=False)

    def close(self) -> None:
        """Give back what the epoch holds; done by itself when the epoch is forgotten."""
        self._closed = True
        self._holding.close()

    def __repr__(self) -> str:
        if self._barrier is None:
            return f"<tidegate.Epoch {self.number}: not complete>"
        error = f", error={self._barrier.error.message!r}" if self._barrier.error else ""
        return f"<tidegate.Epoch {self.number}: {self._holding.rows:,} rows{error}>"

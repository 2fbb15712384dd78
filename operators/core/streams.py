"""Streams over iterators, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from ...proto.errors import InternalError
from .operator import Stream
from .sizes import batch_bytes


class BatchStream:
    """A `Stream` over any iterable of batches. Closing it closes the iterator where that can be closed.

    `rows` and `bytes` count the rows that were handed out. The producer sets `watermark` before the stream ends.
    """

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = schema
        self.watermark: int | None = None
        self.rows = 0
        self.bytes = 0
        self._batches = iter(batches)
        self._closed = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._closed:
            raise StopIteration
        batch = next(self._batches)
        self.rows += batch.num_rows
        self.bytes += batch_bytes(batch)
        return batch

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()


def none_of(inputs: Sequence[Stream], what: str) -> Iterator[pa.RecordBatch]:
    """No rows: those of `what` are in files that other processes have written, and must not come here."""
    [rows] = inputs
    with closing(rows):
        for _ in rows:
            raise InternalError(f"rows of {what} came in place of their files")
    yield from ()

"""An input's rows, held so that a second run of a statement reads the same ones: in memory at first, then in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

import pyarrow as pa

from ...proto.errors import TidegateError
from ..core.sizes import batch_bytes


class SpillRoom:
    """The room for held rows: files in `folder`. Beyond `limit` bytes of files the error of `full` is raised, if `full`
    is given.
    """

    def __init__(self, folder: str, limit: int | None = None, full: Callable[[], TidegateError] | None = None) -> None:
        self._folder = folder
        self._left = limit
        self._full = full

    def path(self) -> str:
        """The path of a new, empty file. The file is made at once, because the fragments of an instance share its
        folder.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix="held-", suffix=".arrow", dir=self._folder)
        os.close(handle)
        return path

    def take(self, size: int) -> None:
        if self._left is None or self._full is None:
            return
        self._left -= size
        if self._left < 0:
            raise self._full()


class HeldRows:
    """The held rows of one input. `close` removes their file."""

    def __init__(self, batches: Iterator[pa.RecordBatch], room: SpillRoom) -> None:
        self._rest = batches
        self._room = room
        self._memory: list[pa.RecordBatch] = []
        self._size = self._rows = 0
        self._stored = False
        self._path: str | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: pa.RecordBatchWriter | None = None

    def fill(self, most: int) -> int:
        """Take rows into memory, to the end or until there are more than `most` bytes, and return the bytes. Once later
        rows are in the file no more are taken: they would come before the rows in the file.
        """
        while self._path is None and self._size <= most:
            batch = next(self._rest, None)
            if batch is None:
                break
            self._memory.append(batch)
            self._size += batch_bytes(batch)
            self._rows += batch.num_rows
        return self._size

    @property
    def row_bytes(self) -> int:
        """About the bytes of a row, among the rows that `fill` took."""
        return self._size // max(self._rows, 1)

    def joined(self, schema: pa.Schema, most: int) -> pa.RecordBatch | None:
        """The rows in memory as one batch; None where there are more than `most` rows."""
        if sum(batch.num_rows for batch in self._memory) > most:
            return None
        match self._memory:
            case []:
                return pa.RecordBatch.from_pylist([], schema=schema)
            case [batch]:
                return batch
            case batches:
                return pa.concat_batches(batches)

    def store(self) -> None:
        """Write all rows that are not in memory to the file: all rows, if `fill` was not called. A reading that has
        begun goes on in the file.
        """
        self._stored = True
        for batch in self._rest:
            self._write(batch)

    def read(self, *, again: bool, last: bool = False) -> Iterator[pa.RecordBatch]:
        """All rows, from the first one on. Rows in memory can be read again unless this is the `last` reading; with
        `again`, the other rows, too.
        """
        if last:
            in_memory, self._memory = self._memory[::-1], []
            while in_memory:
                yield in_memory.pop()
        else:
            yield from self._memory
        if self._path is not None:
            self.store()  # the rest of a reading that was closed before its end
        in_file = 0
        while not self._stored:
            batch = next(self._rest, None)
            if batch is None:
                return
            if again:
                self._write(batch)
                in_file += 1
            yield batch
        self._finish()
        if self._path is not None:
            with pa.OSFile(self._path) as source:  # pages of a map count as resident
                yield from islice(pa.ipc.open_stream(source), in_file, None)

    def close(self) -> None:
        self._finish()
        self._memory.clear()
        path, self._path = self._path, None
        if path is not None:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._path = self._room.path()
            self._sink = pa.OSFile(self._path, "wb")
            self._writer = pa.ipc.new_stream(self._sink, batch.schema)
        self._room.take(batch_bytes(batch))
        self._writer.write_batch(batch)

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        sink, self._sink = self._sink, None
        if writer is not None and sink is not None:
            writer.close()
            sink.close()

"""Rows that are held for a while: the first ones in memory, the others in a file of their own.

One buffer for all who hold rows: the client an epoch's, a statement its inputs', a merge join those of one key, a task
the results of its static sources. Rows come back in the order in which they were added. Each batch goes to the file
with its own dictionaries.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

import pyarrow as pa

from ..errors import Exhausted, TidegateError


def _full(size: int) -> TidegateError:
    return Exhausted(f"there is no room on disk for {size:,} more bytes of rows", reason="SPILL_QUOTA")


class SpillRoom:
    """The room for buffers' files in `folder`, the system's temporary folder if that is None. `take` is asked for bytes
    on disk, which `give` has back; if it refuses, the error of `full` is raised. `rows` says whose rows they are.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        take: Callable[[int], bool] = lambda _: True,
        give: Callable[[int], None] = lambda _: None,
        full: Callable[[int], TidegateError] = _full,
        rows: str = "rows",
    ) -> None:
        self._folder = folder
        self._take = take
        self._full = full
        self._rows = rows
        self.give = give

    def path(self) -> str:
        """The path of a new, empty file. The file is made at once, because others may share the folder."""
        try:
            if self._folder is not None:
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
            handle, path = tempfile.mkstemp(prefix="tidegate-held-", suffix=".arrow", dir=self._folder)
        except OSError as error:
            raise self.failed(error) from error
        os.close(handle)
        return path

    def take(self, size: int) -> None:
        if not self._take(size):
            raise self._full(size)

    def failed(self, error: OSError) -> Exhausted:
        return Exhausted(f"spilling {self._rows} to disk failed: {error}", reason="SPILL_FAILED")


class SpillBuffer:
    """The rows. `add` and `seal` them, then read them with `batches`, any number of times, or with `pop`, which forgets
    them. `close` removes the file.

    Up to `most` bytes are in memory. With `together`, no rows stay in memory once some are in the file. A `mapped` file
    is read without copies, from any thread, and loses its name when it is sealed; the pages of a map count as memory
    of the process.
    """

    def __init__(self, room: SpillRoom, most: float, *, together: bool = False, mapped: bool = False) -> None:
        self.rows: int = 0
        self.bytes: int = 0
        """The bytes in memory."""
        self._room = room
        self._most = most
        self._together = together
        self._mapped = mapped
        self._memory: deque[pa.RecordBatch] = deque()
        self._path: str | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: pa.RecordBatchWriter | None = None
        self._map: pa.Buffer | None = None
        self._popped: Iterator[pa.RecordBatch] | None = None
        self.on_disk = 0

    @property
    def in_memory(self) -> tuple[pa.RecordBatch, ...]:
        return tuple(self._memory)

    @property
    def spilled(self) -> bool:
        return self._path is not None or self._map is not None

    def add(self, batch: pa.RecordBatch) -> None:
        size = pa.ipc.get_record_batch_size(batch)
        if self._path is None and self.bytes + size <= self._most:
            self.hold(batch, size)
        else:
            self.store(batch)

    def hold(self, batch: pa.RecordBatch, size: int | None = None) -> None:
        """Add rows to those in memory. There are none in the file."""
        self.rows += batch.num_rows
        self.bytes += pa.ipc.get_record_batch_size(batch) if size is None else size
        self._memory.append(batch)

    def store(self, batch: pa.RecordBatch) -> None:
        """Add rows to those in the file."""
        self.rows += batch.num_rows
        while self._together and self._memory:
            self._write(self._memory.popleft())
            self.bytes = 0
        self._write(batch)

    def seal(self) -> None:
        """End the adding."""
        writer, self._writer = self._writer, None
        sink, self._sink = self._sink, None
        if writer is None or sink is None or self._path is None:
            return
        writer.close()
        sink.close()
        if self._mapped:
            with pa.memory_map(self._path) as source:
                self._map = source.read_buffer()
            self._remove()

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.in_memory
        yield from self.stored()

    def stored(self, start: int = 0) -> Iterator[pa.RecordBatch]:
        """The batches in the sealed file, from number `start` on."""
        if self._map is not None:
            with pa.ipc.open_stream(self._map) as reader:
                yield from islice(reader, start, None)
        elif self._path is not None:
            with pa.OSFile(self._path) as source, pa.ipc.open_stream(source) as reader:
                yield from islice(reader, start, None)

    def pop(self) -> pa.RecordBatch | None:
        """The first batch, which is then forgotten; None if there is none, or none yet."""
        if (batch := next(self.drained(), None)) is not None:
            return batch
        if self._writer is not None:
            return None
        if self._popped is None:
            self._popped = self.stored()
        popped = next(self._popped, None)
        if popped is None:
            self.close()
        return popped

    def drained(self) -> Iterator[pa.RecordBatch]:
        """The batches in memory, each forgotten as it is handed out."""
        while self._memory:
            batch = self._memory.popleft()
            self.bytes -= pa.ipc.get_record_batch_size(batch)
            yield batch

    def close(self) -> None:
        """Release memory and file. Batches that were handed out stay valid."""
        self.seal()
        self._remove()
        self._room.give(self.on_disk)
        self.on_disk = self.bytes = 0
        self._memory.clear()
        self._map = self._popped = None

    def _write(self, batch: pa.RecordBatch) -> None:
        size = pa.ipc.get_record_batch_size(batch)
        self._room.take(size)
        self.on_disk += size
        try:
            if self._writer is None:
                self._path = self._path or self._room.path()
                self._sink = pa.OSFile(self._path, "wb")
                self._writer = pa.ipc.new_stream(self._sink, batch.schema)
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._room.failed(error) from error

    def _remove(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            with suppress(FileNotFoundError):
                os.unlink(path)

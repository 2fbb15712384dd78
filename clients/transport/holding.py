"""Holds the rows of an epoch: in memory up to a bound, the rest in a file of its own."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from ..proto.values import GIB

HOLD_BYTES: Final = GIB


class Holding:
    """A store of batches. `take` them one by one, or `finish` it and read them any number of times."""

    def __init__(self, schema: pa.Schema, hold_bytes: float) -> None:
        self.schema = schema
        self.rows = 0
        self._hold_bytes = hold_bytes
        self._bytes = 0
        self._memory: deque[pa.RecordBatch] = deque()
        self._file: Path | None = None
        self._writer: pa.RecordBatchWriter | None = None
        self._spilled: pa.MemoryMappedFile | None = None
        self._rest: Iterator[pa.RecordBatch] | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._bytes += pa.ipc.get_record_batch_size(batch)  # `nbytes` takes ten times as long
        if self._writer is None and self._bytes <= self._hold_bytes:
            self._memory.append(batch)
            return
        if self._writer is None:
            with tempfile.NamedTemporaryFile(prefix="tidegate-epoch-", suffix=".arrow", delete=False) as file:
                self._file = Path(file.name)
            self._writer = pa.ipc.new_stream(str(self._file), self.schema)
        self._writer.write_batch(batch)

    def finish(self) -> None:
        """End the adding. A spill file loses its name here, and is removed with this object."""
        if self._writer is None or self._file is None:
            return
        self._writer.close()
        self._writer = None
        self._spilled = pa.memory_map(str(self._file))
        self._file.unlink()
        self._file = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._memory
        yield from self._from_file()

    def take(self) -> pa.RecordBatch | None:
        """The first batch, which is then forgotten; None if there is none, or none yet."""
        if self._memory:
            batch = self._memory.popleft()
            self._bytes -= pa.ipc.get_record_batch_size(batch)
            return batch
        if self._rest is None:
            if self._spilled is None:
                return None
            self._rest = self._from_file()
        if (taken := next(self._rest, None)) is None:
            self.close()
        return taken

    def _from_file(self) -> Iterator[pa.RecordBatch]:
        if self._spilled is not None:
            self._spilled.seek(0)
            with pa.ipc.open_stream(self._spilled) as reader:
                yield from reader

    def close(self) -> None:
        """Release memory and file. Batches that were handed out stay valid."""
        self.finish()
        self._memory.clear()
        self._spilled = self._rest = None

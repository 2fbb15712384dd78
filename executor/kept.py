"""Rows that stay for the task's life: what static sources alone feed, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from ..operators.sizes import batch_bytes


class KeptRows:
    """In memory up to `memory_limit` bytes, else in a file of the task's folder, which is read by mapping it."""

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path, memory_limit: int) -> None:
        self.schema = schema
        self._path = path
        self._batches: list[pa.RecordBatch] | None = []
        self.rows = 0
        size = 0
        rest = iter(batches)
        for batch in rest:
            self._batches.append(batch)
            self.rows += batch.num_rows
            size += batch_bytes(batch)
            if size > memory_limit:
                self._to_file(self._batches, rest)
                self._batches = None
                return

    def _to_file(self, held: Iterable[pa.RecordBatch], rest: Iterable[pa.RecordBatch]) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with pa.OSFile(str(self._path), "wb") as sink, pa.ipc.new_stream(sink, self.schema) as writer:
            for batch in held:
                writer.write_batch(batch)
            for batch in rest:
                self.rows += batch.num_rows
                writer.write_batch(batch)

    def read(self) -> Iterator[pa.RecordBatch]:
        if self._batches is not None:
            yield from self._batches
            return
        with pa.memory_map(str(self._path)) as source:
            yield from pa.ipc.open_stream(source)

"""Rows kept for the task's life: computed once, from static sources alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ...operators.core.sizes import batch_bytes
from ...proto.errors import Exhausted
from ..runtime.batch_store import SpillSpace


class Rows(Protocol):
    """Rows that can be read any number of times."""

    def read(self) -> Iterator[pa.RecordBatch]: ...


class KeptRows:
    """Kept rows: in memory up to `room` bytes, else in a file of the task, which is read by mapping.

    The file counts against the task's quota; `Exhausted` if the quota has no room. `size` is what the rows take in
    memory.
    """

    def __init__(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], room: int, space: SpillSpace):
        self.schema = schema
        self.size = 0
        self._name = name
        self._space = space
        self._path: Path | None = None
        self._batches: list[pa.RecordBatch] = []
        rest = iter(batches)
        for batch in rest:
            self._batches.append(batch)
            self.size += batch_bytes(batch)
            if self.size > room:
                self._path = self._to_file(self._batches, rest)
                self._batches, self.size = [], 0

    def _to_file(self, held: Iterable[pa.RecordBatch], rest: Iterable[pa.RecordBatch]) -> Path:
        path = self._space.files.new_path(".kept.arrow")
        quota = self._space.quota
        taken = 0
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, self.schema) as writer:
                for batches in (held, rest):
                    for batch in batches:
                        taken += self._take(batch_bytes(batch))
                        writer.write_batch(batch)
        except BaseException as error:
            quota.give(taken)
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise Exhausted(f"spilling to disk failed: {error}", reason="SPILL_FAILED") from error
            raise
        quota.keep(taken)
        self._space.files.check_kept()
        return path

    def _take(self, size: int) -> int:
        quota = self._space.quota
        if not quota.take(size):
            raise Exhausted(
                f"{self._name}: the kept rows of static sources do not fit in the task's spill_quota ({quota.limit} "
                "bytes): raise spill_quota",
                reason="SPILL_QUOTA",
            )
        return size

    def read(self) -> Iterator[pa.RecordBatch]:
        if self._path is None:
            yield from self._batches
            return
        with pa.memory_map(str(self._path)) as source:
            yield from pa.ipc.open_stream(source)

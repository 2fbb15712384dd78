"""Rows held for a while and read again in order: in memory up to a limit, beyond it in a file of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ...proto.errors import Exhausted
from .blocks import blocks
from .sizes import batch_bytes


def _always(size: int) -> bool:  # noqa: ARG001
    return True


def _nothing(size: int) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The number of bytes that are held in memory, and the folder for the rest. Bytes on disk are asked of `take`,
    which may refuse, and given back with `give`.
    """

    memory_limit: int
    folder: Path
    take: Callable[[int], bool] = _always
    give: Callable[[int], None] = _nothing


class HeldRows:
    """Rows that are added with `add`, sealed with `seal`, and then read with `batches` any number of times. `close`
    removes the file.

    Each batch goes to the file with its own dictionaries.
    """

    def __init__(self, schema: pa.Schema, holding: Holding) -> None:
        self.rows = 0
        self._schema = schema
        self._holding = holding
        self._memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._taken = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    @property
    def spilled(self) -> bool:
        return self._path is not None

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._bytes += batch_bytes(batch)
        self._memory.append(batch)
        if self._bytes > self._holding.memory_limit:
            self._spill()

    def seal(self) -> None:
        """End the rows: no more are added."""
        if self._writer is None:
            self._memory = list(blocks(self._memory))
            return
        self._spill()
        writer, self._writer = self._writer, None
        writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._path is None:
            yield from self._memory
            return
        with pa.OSFile(str(self._path)) as source, pa.ipc.open_stream(source) as reader:
            yield from reader

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        self._holding.give(self._taken)
        self._taken = 0
        self._memory = []

    def _spill(self) -> None:
        if not self._holding.take(self._bytes):
            size = self._taken + self._bytes
            message = f"the rows of one key take {size:,} bytes on disk, more than is left of spill_quota"
            raise Exhausted(message, reason="SPILL_QUOTA")
        self._taken += self._bytes
        try:
            if self._writer is None:
                self._writer = self._open()
            for batch in blocks(self._memory):
                self._writer.write_batch(batch)
        except OSError as error:
            raise Exhausted(f"spilling rows of one key to disk failed: {error}", reason="SPILL_FAILED") from error
        self._memory, self._bytes = [], 0

    def _open(self) -> pa.RecordBatchStreamWriter:
        self._holding.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix="held-", suffix=".arrow", dir=self._holding.folder)
        os.close(handle)
        self._path = Path(path)
        return pa.ipc.new_stream(path, self._schema)

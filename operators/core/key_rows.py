"""The rows of one key, held for a while and read again in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ...proto.arrow.spill_buffer import SpillBuffer, SpillRoom
from ...proto.errors import Exhausted
from .blocks import blocks
from .sizes import BATCH_BYTES, batch_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The number of bytes that are held in memory, and the folder for the rest. Bytes on disk are asked of `take`,
    which may refuse, and given back with `give`.
    """

    memory_limit: int
    folder: Path
    take: Callable[[int], bool] = lambda _: True
    give: Callable[[int], None] = lambda _: None

    def buffer(self) -> SpillBuffer:
        room = SpillRoom(self.folder, self.take, self.give, full=_full, rows="rows of one key")
        return SpillBuffer(room, self.memory_limit)


class KeyRows:
    """Rows that are added with `add`, sealed with `seal`, and then read with `batches` any number of times, in blocks.
    `close` removes the file.
    """

    def __init__(self, holding: Holding) -> None:
        self.rows = 0
        self._buffer = holding.buffer()
        self._few = min(BATCH_BYTES, holding.memory_limit)
        self._new: list[pa.RecordBatch] = []
        self._bytes = 0

    @property
    def spilled(self) -> bool:
        return self._buffer.spilled

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._bytes += batch_bytes(batch)
        self._new.append(batch)
        if self._bytes > self._few:
            self._flush()

    def seal(self) -> None:
        """End the rows: no more are added."""
        self._flush()
        self._buffer.seal()

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self._buffer.batches()

    def close(self) -> None:
        self._new = []
        self._buffer.close()

    def _flush(self) -> None:
        for block in blocks(self._new):
            self._buffer.add(block)
        self._new, self._bytes = [], 0


def _full(size: int) -> Exhausted:
    return Exhausted(
        f"the rows of one key take {size:,} bytes more on disk than is left of spill_quota", reason="SPILL_QUOTA"
    )

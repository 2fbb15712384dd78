"""Rows kept for the task's life: computed once, from static sources alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from ...proto.arrow.spill_buffer import SpillBuffer, SpillRoom
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

    def __init__(self, name: str, batches: Iterable[pa.RecordBatch], room: int, space: SpillSpace):
        quota = space.quota
        self._name = name
        self._limit = quota.limit
        files = SpillRoom(space.files.folder, quota.take, quota.give, full=self._full)
        self._buffer = SpillBuffer(files, room, together=True, mapped=True)
        try:
            for batch in batches:
                self._buffer.add(batch)
            self._buffer.seal()
        except BaseException:
            self._buffer.close()
            raise
        quota.keep(self._buffer.on_disk)
        space.files.check_kept()

    @property
    def size(self) -> int:
        return self._buffer.bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        return self._buffer.batches()

    def _full(self, _: int) -> Exhausted:
        return Exhausted(
            f"{self._name}: the kept rows of static sources do not fit in the task's spill_quota ({self._limit} "
            "bytes): raise spill_quota",
            reason="SPILL_QUOTA",
        )

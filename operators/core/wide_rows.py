"""The memory of wide rows, which goes back to the system soon.

Allocators keep what is freed for the thread that took it. That is fast for narrow rows, whose arrays are small. Batches
of wide rows are blocks of megabytes that one thread takes and another one frees: some hundred megabytes were kept so,
beside all limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...proto.allocator import give_back
from .sizes import BATCH_BYTES, batch_bytes

WIDE: Final = 512
"""The bytes of a row from which on it is wide."""
_LEAST: Final = 1 << 19
"""The bytes of wide rows from which on their memory goes back: smaller blocks cost more than they keep."""


def wide_bytes(batch: pa.RecordBatch) -> int:
    """The batch's bytes where its rows are wide, else 0. A batch of many rows is not asked for its bytes."""
    rows = batch.num_rows
    size = batch_bytes(batch) if 0 < rows <= BATCH_BYTES // WIDE else 0
    return size if size >= WIDE * rows else 0


def concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of one batch or more in one batch."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches, memory_pool=_POOL if wide_bytes(batches[-1]) else None)


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in blocks of its own where its rows are wide: the default allocator takes up to half as much again for
    the few megabytes of a batch, which matters where batches stay.
    """
    return pa.concat_batches([batch, batch[:0]], memory_pool=_POOL) if wide_bytes(batch) and _POOL else batch


def taken(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """The rows at these positions, which are positions of the batch."""
    is_wide = batch.num_rows > 0 and batch_bytes(batch) >= WIDE * batch.num_rows
    return pc.take(batch, rows, boundscheck=False, memory_pool=_POOL if is_wide else None)


def wide_pool(arrays: Sequence[pa.Array], rows: int) -> pa.MemoryPool | None:
    """The pool for so many rows of these arrays; None, the default one, where the rows are few or narrow."""
    return _POOL if are_wide(arrays, rows) else None


def are_wide(arrays: Sequence[pa.Array], rows: int) -> bool:
    """True where so many rows of these arrays are wide, and take enough memory to be worth a look."""
    values = sum(map(len, arrays))

    def is_wide(size: int) -> bool:
        return size > WIDE * values and rows * size > _LEAST * values

    if not is_wide(sum(array.get_total_buffer_size() for array in arrays)):  # faster, and never less
        return False
    return is_wide(sum(array.nbytes for array in arrays))


class PassingRows:
    """Rows that pass: after `every` so many bytes of wide ones, freed memory goes back to the system."""

    def __init__(self, every: int) -> None:
        self._bytes = 0
        self._every = every
        self._given_back = False

    def add(self, batch: pa.RecordBatch) -> None:
        self.add_bytes(wide_bytes(batch))

    def add_bytes(self, size: int) -> None:
        """Count bytes that are freed soon, as those of wide rows."""
        self._bytes += size
        if self._bytes >= self._every:
            self._give_back()

    def end(self) -> None:
        """Give freed memory back where it has gone back before: others are about to take what they may."""
        if self._given_back:
            self._give_back()

    def _give_back(self) -> None:
        self._bytes, self._given_back = 0, True
        pa.default_memory_pool().release_unused()
        give_back()


def _pool() -> pa.MemoryPool | None:
    """A pool that keeps nothing that is freed; None, the default one, where pyarrow has no other."""
    if "jemalloc" not in pa.supported_memory_backends() or pa.default_memory_pool().backend_name == "jemalloc":
        return None
    pa.jemalloc_set_decay_ms(0)
    return pa.jemalloc_memory_pool()


_POOL: Final = _pool()

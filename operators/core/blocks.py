"""Blocks: a stream cut after every 65,536 rows, and before a row that would make the block's values more than 16 MiB.

DuckDB's result for a stream may depend on the cuts between the stream's batches. Blocks make these cuts a function of
the rows alone, so earlier cuts have no influence. A row that is larger than a block is a block by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from .sizes import batch_bytes, fixed_row_bytes, is_encoded, row_bytes
from .wide_rows import concatenated

BLOCK_ROWS: Final = 65_536
BLOCK_BYTES: Final = 16 << 20

_COMPACT_AT: Final = 1_024
_ENOUGH_ROWS: Final = BLOCK_ROWS // 4
_ENOUGH_BYTES: Final = 1 << 20


def blocks(
    batches: Iterable[pa.RecordBatch], rows: int = BLOCK_ROWS, size: int = BLOCK_BYTES
) -> Iterator[pa.RecordBatch]:
    """`batches` re-cut into blocks of `rows` rows, or as many as `size` bytes of values hold. No block is empty.

    A block that lies inside one batch is a slice of it. Other blocks are copied once, or twice where they consist of
    many tiny batches. The iterator never holds more than a block and the batch that completes it.
    """
    held = _Held(rows, size)
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, rows - held.rows) if start or batch.num_rows > rows - held.rows else batch
            taken = held.take(part)
            start += taken
            if taken < part.num_rows or held.rows == rows:
                yield held.joined()
    if held.rows:
        yield held.joined()


def gathered(
    batches: Iterable[pa.RecordBatch], rows: int = _ENOUGH_ROWS, size: int = _ENOUGH_BYTES, most_rows: int = BLOCK_ROWS
) -> Iterator[pa.RecordBatch]:
    """`batches` in fair sizes, for computations that do not depend on the cuts: joined until they have `rows` rows or
    `size` bytes, and cut where they have more than `most_rows` rows or `size` bytes.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += batch_bytes(batch)
        if held_rows >= rows or held_bytes >= size:
            yield from blocks((concatenated(held),), most_rows, size)
            held, held_rows, held_bytes = [], 0, 0
    if held_rows:
        yield concatenated(held)


class _Held:
    """The rows of the next block so far. Their bytes are an upper bound until the exact number matters: counting the
    bytes of each row costs as much as reading it.
    """

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self.rows = 0
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._batches: list[pa.RecordBatch] = []
        self._uncounted: list[pa.RecordBatch] = []
        self._bytes = 0
        self._bound = 0
        self._schema: pa.Schema | None = None
        self._is_encoded = False

    def take(self, part: pa.RecordBatch) -> int:
        """Add as many rows of `part` as fit (at least one where the block is empty), and return their number."""
        fitting = part.num_rows if self._surely_fits(part) else self._fitting(part)
        if fitting:
            self._batches.append(part if fitting == part.num_rows else part.slice(0, fitting))
            self.rows += fitting
            if len(self._batches) >= _COMPACT_AT:
                self._batches = [concatenated(self._batches)]
        return fitting

    def joined(self) -> pa.RecordBatch:
        block = concatenated(self._batches)
        self._batches, self._uncounted = [], []
        self.rows = self._bytes = self._bound = 0
        return block

    def _surely_fits(self, part: pa.RecordBatch) -> bool:
        if self._schema is None or not part.schema.equals(self._schema):
            self._schema = part.schema
            self._is_encoded = any(map(is_encoded, part.schema.types))
        if self._is_encoded:
            return False
        bound = batch_bytes(part)
        if self._bytes + self._bound + bound > self._most_bytes:
            width = fixed_row_bytes(part.schema)
            return width is not None and width * self._most_rows <= self._most_bytes
        self._bound += bound
        self._uncounted.append(part)
        return True

    def _fitting(self, part: pa.RecordBatch) -> int:
        self._bytes += sum(int(row_bytes(batch).sum()) for batch in self._uncounted)
        self._uncounted, self._bound = [], 0
        up_to = np.cumsum(row_bytes(part))
        fitting = int(np.searchsorted(up_to, self._most_bytes - self._bytes, side="right"))
        fitting = max(fitting, 0 if self.rows else 1)
        self._bytes += int(up_to[fitting - 1]) if fitting else 0
        return fitting

"""Blocks: a stream cut after every 65,536 rows, and before a row that would make the block's values more than 16 MiB.

DuckDB's result for a stream may depend on the cuts between the stream's batches. Blocks make these cuts a function of
the rows alone, so earlier cuts have no influence. A row that is larger than a block is a block by itself.

A block of wide rows takes 16 MiB, and again 16 MiB in each copy. A reader that does not need a block in one batch takes
it in *parts*: cut before a row that would make the part's values more than 2 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from .sizes import batch_bytes, fixed_row_bytes, has_encoded, row_bytes
from .wide_rows import concatenated

BLOCK_ROWS: Final = 65_536
BLOCK_BYTES: Final = 16 << 20
PART_BYTES: Final = 2 << 20

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
    held = _Held()
    for piece, is_last in _pieces(batches, _Room(rows, size)):
        held.add(piece)
        if is_last:
            yield held.joined()
    if held.rows:
        yield held.joined()


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring rows of a block. `ends`: the block has no rows behind them."""

    rows: pa.RecordBatch
    ends: bool


def parts(
    batches: Iterable[pa.RecordBatch], rows: int = BLOCK_ROWS, size: int = BLOCK_BYTES, part_size: int = PART_BYTES
) -> Iterator[Part]:
    """The blocks of `batches`, each in parts of at most `part_size` bytes of values, or of one row.

    The iterator never holds more than a part and the batch that completes it.
    """
    held, block = _Held(), _Room(rows, size)
    room = _Room(rows + 1, part_size)  # only its bytes end a part within a block, so rows of the block follow
    for piece, is_last in _pieces(batches, block):
        for some, is_full in _pieces((piece,), room):
            held.add(some)
            if is_full:
                block.count()
                yield Part(held.joined(), ends=False)
        if is_last:
            room.empty()
            yield Part(held.joined(), ends=True)
    if held.rows:
        yield Part(held.joined(), ends=True)


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


def _pieces(batches: Iterable[pa.RecordBatch], room: _Room) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """`batches` cut where the room ends, which is then empty again. Each piece with True if the room ends behind it; a
    piece has no rows where the room ended before it.
    """
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            left = room.most_rows - room.rows
            piece = batch.slice(start, left) if start or batch.num_rows > left else batch
            taken = room.take(piece)
            start += taken
            is_last = taken < piece.num_rows or room.rows == room.most_rows
            if is_last:
                room.empty()
            yield (piece if taken == piece.num_rows else piece.slice(0, taken)), is_last


class _Held:
    """Rows that are to come out as one batch."""

    def __init__(self) -> None:
        self.rows = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._batches.append(rows)
            self.rows += rows.num_rows
            if len(self._batches) >= _COMPACT_AT:
                self._batches = [concatenated(self._batches)]

    def joined(self) -> pa.RecordBatch:
        rows = concatenated(self._batches)
        self._batches, self.rows = [], 0
        return rows


class _Room:
    """The room in the next block, or part: so many rows and bytes. The bytes of the rows inside are an upper bound
    until the exact number matters: counting the bytes of each row costs as much as reading it.
    """

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self.rows = 0
        self.most_rows = most_rows
        self._most_bytes = most_bytes
        self._uncounted: list[pa.RecordBatch] = []
        self._bytes = 0
        self._bound = 0
        self._schema: pa.Schema | None = None
        self._is_encoded = False

    def take(self, part: pa.RecordBatch) -> int:
        """Add as many rows of `part` as fit (at least one where the room is empty), and return their number."""
        fitting = part.num_rows if self._surely_fits(part) else self._fitting(part)
        self.rows += fitting
        return fitting

    def count(self) -> None:
        """Count the bytes of all rows inside, which need not be held any longer."""
        self._bytes += sum(self._exact(batch) for batch in self._uncounted)
        self._uncounted, self._bound = [], 0

    def empty(self) -> None:
        self._uncounted = []
        self.rows = self._bytes = self._bound = 0

    def _surely_fits(self, part: pa.RecordBatch) -> bool:
        if self._schema is None or not part.schema.equals(self._schema):
            self._schema = part.schema
            self._is_encoded = has_encoded(part.schema)
        if self._is_encoded:
            return False
        bound = batch_bytes(part)
        if self._bytes + self._bound + bound > self._most_bytes:
            width = self._row_bytes
            return width is not None and width * self.most_rows <= self._most_bytes
        self._bound += bound
        self._uncounted.append(part)
        return True

    @property
    def _row_bytes(self) -> int | None:
        return None if self._schema is None else fixed_row_bytes(self._schema)

    def _fitting(self, part: pa.RecordBatch) -> int:
        self.count()
        left = self._most_bytes - self._bytes
        least = 0 if self.rows else 1
        if width := self._row_bytes:
            fitting = int(min(max(left // width, least), part.num_rows))
            self._bytes += fitting * width
            return fitting
        up_to = np.cumsum(row_bytes(part))
        fitting = max(int(np.searchsorted(up_to, left, side="right")), least)
        self._bytes += int(up_to[fitting - 1]) if fitting else 0
        return fitting

    def _exact(self, batch: pa.RecordBatch) -> int:
        width = self._row_bytes
        return int(row_bytes(batch).sum()) if width is None else width * batch.num_rows

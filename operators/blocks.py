"""Blocks: a stream cut into 65,536 rows each, the last one short.

What DuckDB computes from a stream may depend on where the stream's batches are cut; it cannot depend on where they
were cut before this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

BLOCK_ROWS = 65_536

_COMPACT_AT = 1_024


def blocks(batches: Iterable[pa.RecordBatch], rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
    """`batches` re-cut into `rows` rows each, none of them empty.

    A block that lies inside one batch is a slice of it; others are copied once, or twice where many tiny batches
    make them up. Never holds more than a block and the batch that completes it.
    """
    pending: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        start, end = 0, batch.num_rows
        if held and end:
            start = min(rows - held, end)
            pending.append(batch.slice(0, start))
            held += start
            if held == rows:
                yield _joined(pending)
                pending, held = [], 0
            elif len(pending) >= _COMPACT_AT:
                pending = [_joined(pending)]
        while end - start >= rows:
            yield batch.slice(start, rows) if end != rows else batch
            start += rows
        if start < end:
            pending.append(batch.slice(start))
            held += end - start
    if held:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

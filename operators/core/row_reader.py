"""Reads rows that are held in batches, from one number up to another one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TypeAlias

import pyarrow as pa

RowReader: TypeAlias = Callable[[int, int], Iterator[pa.RecordBatch]]
"""Reads the rows from one number up to another one, any number of times. Rows on disk are read as they are asked
for.
"""


def row_ends(batches: Sequence[pa.RecordBatch]) -> Sequence[int]:
    """The number of rows up to the end of each batch."""
    return tuple(accumulate([batch.num_rows for batch in batches]))


def read_between(
    batch_at: Callable[[int], pa.RecordBatch], ends: Sequence[int], start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Rows `start` to `end` of the batches with these `row_ends`. Each batch is asked for when its turn comes."""
    for number in range(bisect_right(ends, start), len(ends)):
        before = ends[number - 1] if number else 0
        if before >= end:
            return
        yield _part(batch_at(number), max(start - before, 0), min(end, ends[number]) - before)


def _part(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    return batch if high - low == batch.num_rows else batch.slice(low, high - low)


def reader_of(batches: Sequence[pa.RecordBatch]) -> RowReader:
    """A reader of batches in memory."""
    return partial(read_between, batches.__getitem__, row_ends(batches))


no_rows = reader_of(())

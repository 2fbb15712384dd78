"""Columns of long lists whose values lie in a Parquet file as Arrow has them in memory: numbers in PLAIN, in pages that
are not compressed and have no checksums. Their bytes are read to their places, and nothing is decoded.

The size of a page says that each of its levels has a value: nulls and empty lists have levels, and no bytes. Where
anything else is unexpected, the column is left to pyarrow, which decodes it or says what is wrong.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from .....proto.arrow.parquet_footer import Chunk, Footer, Leaf, RandomFile
from .....proto.arrow.thrift import Damaged
from ....arrays.packed_numbers import Counts
from ..parquet_headers import Page, pages
from ..parquet_rows import row_starts

_INT32, _INT64, _FLOAT, _DOUBLE = 1, 2, 4, 5
#: The physical type whose values are those of an Arrow type.
PHYSICAL: Final = {
    pa.int32(): _INT32,
    pa.uint32(): _INT32,
    pa.int64(): _INT64,
    pa.uint64(): _INT64,
    pa.float32(): _FLOAT,
    pa.float64(): _DOUBLE,
}
#: Smaller chunks are decoded sooner than their pages are looked at.
_WORTH_BYTES: Final = 64 << 10
#: The values of a list, on average. Levels of shorter lists are decoded sooner by pyarrow: here each list takes a
#: microsecond or two.
_LONG: Final = 512
#: The values that a column of lists can have.
_MOST: Final = 1 << 31
_LENGTH: Final = 4
#: Pages of lists of one length have the same levels, which are then looked at once.
_LEVELS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class _Span:
    """Values that follow each other in the file: `count` of them from byte `at` on, from number `first` of the chunk
    on.
    """

    first: int
    count: int
    at: int


class LongLists:
    """A column of lists in a row group, which is read from its first row on, by the file's descriptor. `starts` are the
    numbers of the values with which the lists begin, and the number of all values.
    """

    def __init__(self, descriptor: int, field: pa.Field, width: int, spans: Sequence[_Span], starts: Counts) -> None:
        self.field = field
        self._descriptor = descriptor
        self._width = width
        self._spans = spans
        self._firsts = [span.first for span in spans]
        self._starts = starts
        self._row = 0

    def take(self, rows: int) -> pa.Array:
        """The lists of the next rows. Raises `Damaged` where there are no so many."""
        if self._row + rows >= len(self._starts):
            raise Damaged(f"column {self.field.name!r} has fewer lists than others of its row group have values")
        starts = self._starts[self._row : self._row + rows + 1]
        self._row += rows
        is_large = kinds.is_large_list(self.field.type)
        offsets = (starts - starts[0]).astype(np.int64 if is_large else np.int32)
        values = self._values(int(starts[0]), int(starts[-1]))
        return pa.Array.from_buffers(self.field.type, rows, [None, pa.py_buffer(offsets)], 0, children=[values])

    def _values(self, first: int, end: int) -> pa.Array:
        buffer = pa.allocate_buffer((end - first) * self._width)
        view = memoryview(buffer).cast("B")
        for span in self._spans[bisect_right(self._firsts, first) - 1 :]:
            low, high = max(first, span.first), min(end, span.first + span.count)
            if low >= high:
                break
            part = view[(low - first) * self._width : (high - first) * self._width]
            fill(self._descriptor, part, span.at + (low - span.first) * self._width)
        return pa.Array.from_buffers(self.field.type.value_type, end - first, [None, buffer], 0)


def long_lists(file: RandomFile, descriptor: int, footer: Footer, group: int, field: pa.Field) -> LongLists | None:
    """The column of a row group; None where it has no long lists whose values lie in the file as Arrow has them in
    memory.
    """
    at = _leaf_position(footer, field)
    if at is None:
        return None
    leaf = footer.leaves[at]
    chunk, rows = footer.groups[group].chunks[at], footer.groups[group].rows
    if (
        chunk.codec
        or chunk.has_dictionary
        or chunk.compressed < _WORTH_BYTES
        or not _LONG * rows <= chunk.values < _MOST
    ):
        return None
    try:
        parts = list(_parts(file, descriptor, chunk, leaf))
    except Damaged:
        return None
    total = sum(span.count for span, _ in parts)
    starts = np.concatenate([*(span.first + starts for span, starts in parts), [total]])
    if total != chunk.values or len(starts) != rows + 1 or starts[0]:
        return None
    return LongLists(descriptor, field, leaf.width, [span for span, _ in parts], starts)


def _leaf_position(footer: Footer, field: pa.Field) -> int | None:
    """The position of the column's only leaf, if it has lists of numbers."""
    if not (kinds.is_list(field.type) or kinds.is_large_list(field.type)):
        return None
    positions = [at for at, leaf in enumerate(footer.leaves) if leaf.path[0] == field.name]
    if len(positions) != 1:
        return None
    leaf = footer.leaves[positions[0]]
    has_numbers = leaf.repeats == 1 and leaf.physical == PHYSICAL.get(field.type.value_type)
    return positions[0] if has_numbers else None


def _parts(file: RandomFile, descriptor: int, chunk: Chunk, leaf: Leaf) -> Iterator[tuple[_Span, Counts]]:
    """The values of each page, and the positions among them with which lists begin, up to a page that has to be decoded
    or has fewer values than levels.
    """
    first = 0
    for page in pages(file, chunk):
        if not page.is_plain or page.checksum is not None or not all(page.levels.are_runs):
            return
        levels, size = _levels(descriptor, page)
        if size + page.values * leaf.width != page.stored:
            return
        yield _Span(first, page.values, page.at + size), _starts(levels, page.values)
        first += page.values


def _levels(descriptor: int, page: Page) -> tuple[bytes, int]:
    """The levels that say where lists begin, and the number of bytes before the values."""
    if page.levels.rows is not None:
        return os.pread(descriptor, page.levels.rows, page.at), page.levels.rows + (page.levels.values or 0)
    size = _length(descriptor, page, 0)
    levels = os.pread(descriptor, size, page.at + _LENGTH)
    size += _LENGTH
    return levels, size + _LENGTH + _length(descriptor, page, size)


def _length(descriptor: int, page: Page, at: int) -> int:
    """The number of bytes of the levels whose length is at this byte of a page."""
    length = int.from_bytes(os.pread(descriptor, _LENGTH, page.at + at), "little")
    if at + length > page.stored:
        raise Damaged(f"the page at byte {page.header:,} has levels beyond its end")
    return length


@lru_cache(maxsize=_LEVELS_KEPT)
def _starts(levels: bytes, count: int) -> Counts:
    """The positions of the levels with which lists begin."""
    return np.concatenate([np.empty(0, np.int64), *row_starts(levels, 1, count)])


def fill(descriptor: int, view: memoryview, at: int) -> None:
    """Fill the view with the file's bytes from `at` on."""
    while len(view):
        read = os.preadv(descriptor, [view], at)
        if not read:
            raise EOFError("the file ends before its last page")
        view, at = view[read:], at + read

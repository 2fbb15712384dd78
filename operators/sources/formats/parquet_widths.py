"""The bytes of the decoded rows of a Parquet file's row group, before they are decoded.

The footer says how large a column is as it is encoded. Values that take less there than once they are decoded count by
the width of their type; a text that is written once, in a dictionary, and stands in many rows counts in each row as the
largest one of the dictionary. Where lists may have more items than a few MiB, their levels say how many each row has. A
file of a few hundred bytes may decode to gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as kinds

from ....proto.arrow.parquet_footer import BYTE_ARRAY, FIXED, Footer
from ....proto.arrow.validation import each_validated
from ...arrays.packed_numbers import Counts
from ...core.sizes import BATCH_BYTES, rows_within
from ...core.wide_rows import WIDE
from ..file_versions import State
from .format import BATCH_ROWS, RowTooLarge, room
from .parquet_headers import ChunkPages, Page, dictionary_page, measured, most_bytes, pages
from .parquet_rows import (
    can_count,
    check_lengths,
    cut_by_cost,
    largest_text,
    page_costs,
    row_items,
    unfolded_bytes,
)

_MOST: Final = 8 * BATCH_BYTES
#: A batch takes at most one part in so many of the memory that a task has.
_BATCH_SHARE: Final = 32
#: Rows of lists whose items take more, with all that a reader needs for them, are not decoded together.
_MOST_ITEMS: Final = 4 * BATCH_BYTES
#: Up to so many bytes all lists of a row group may take together, where a row may have eight times as many.
_MOST_LISTS: Final = 512 << 20
#: Items that take so many times the bytes of the file are looked at.
_FOLDED: Final = 128
#: Pages of texts whose average is so many times that of all pages are counted one by one.
_UNEVEN: Final = 4
#: Pages that take less, all together, are not looked at.
_SMALL: Final = 16 << 20
#: A dictionary of so many values is looked through sooner than pyarrow has decoded it.
_FEW_VALUES: Final = 1 << 14
#: Fewer rows are decoded sooner than a column is chosen for its dictionary.
_WORTH_ROWS: Final = 4_096
#: A dictionary of which each value stands in fewer rows of a batch, on average, costs as much as it saves.
_TIMES_USED: Final = 2
#: The most bytes of all dictionaries that columns are read as, because a reader holds several copies.
_DICTIONARIES: Final = 2 * BATCH_BYTES
_TEXTS: Final = frozenset({BYTE_ARRAY, FIXED})
_OFFSET: Final = 4
_LEVELS: Final = 4
_FILES_KEPT: Final = 64
_CHUNKS_KEPT: Final = 4_096
_BUFFER_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class _Measures:
    """The pages of a file's chunks, their dictionaries, and the largest values of these, by row group and leaf."""

    pages: dict[tuple[int, int], ChunkPages] = field(default_factory=dict)
    dictionaries: dict[tuple[int, int], Page | None] = field(default_factory=dict)
    largest: dict[tuple[int, int], int] = field(default_factory=dict)


@lru_cache(_FILES_KEPT)
def _known(_state: State) -> _Measures:
    """The measures of a file in this state, for the whole process: a file is looked at when its split is added, and
    again when it is read.
    """
    return _Measures()


class Widths:
    """The widths of rows of an open file. The file is read where its pages and dictionaries have to be looked at, once
    for each `state` of a file.
    """

    def __init__(
        self, file: pa.NativeFile, metadata: pq.FileMetaData, footer: Footer, state: State | None = None
    ) -> None:
        self._file = file
        self._metadata = metadata
        self._footer = footer
        chunks = len(footer.groups) * len(footer.leaves)
        measures = _Measures() if state is None or chunks > _CHUNKS_KEPT else _known(state)
        self._measured = measures.pages
        self._dictionaries = measures.dictionaries
        self._largest = measures.largest

    def held_bytes(self, group: int, leaves: Sequence[int]) -> int:
        """About the bytes that a reader holds for the pages of these leaves: it reads them side by side."""
        if self._are_small(group, leaves):
            return 0
        return sum(self._pages(group, at).held for at in leaves)

    def unfolded_bytes(self, group: int, leaves: Sequence[int]) -> int:
        """The most bytes of pages of these leaves whose texts share their beginnings."""
        return sum(self._pages(group, at).unfolded for at in leaves if self._is_text(group, at))

    def check_lengths(self, group: int, leaves: Sequence[int]) -> None:
        """Raise `Damaged` where a page of these leaves, which fits into memory, has more packed lengths than values."""
        for at in leaves:
            chunk, leaf = self._footer.groups[group].chunks[at], self._footer.leaves[at]
            if self._is_text(group, at) and self._pages(group, at).has_lengths:
                for page in pages(self._file, chunk):
                    if page.is_closed:
                        check_lengths(self._file, chunk, leaf, page)

    def row_bytes(self, group: int, leaves: Sequence[int], *, densest: bool = False) -> int:
        """About the bytes of a row in these leaves: the average of values that are written in each row (or that of the
        page where it is largest), and the largest of values that are written once.
        """
        is_small = self._are_small(group, leaves)
        return sum(self._row_bytes(group, at, densest=densest, is_small=is_small) for at in leaves)

    def most_bytes(self, group: int, leaves: Sequence[int], rows: int) -> int:
        """The most bytes that a reader needs for so many rows of a list with many more items than the file has bytes; 0
        where there is no such list.
        """
        folded = [at for at in leaves if self._is_folded(group, at)]
        windows = (
            np.add.reduceat(block, np.arange(0, len(block), rows)).max()
            for at in folded
            for block in self._leaf_costs(group, at)
        )
        return int(max(windows, default=0))

    def row_counts(self, group: int, leaves: Sequence[int], most: int, largest: int) -> Iterator[int]:
        """The numbers of rows to decode at a time, `most` at most, where `even_rows` has none. Raises `RowTooLarge` for
        a row whose items take more than they may where a row may have `largest` bytes.
        """
        uneven = [at for at in leaves if self._is_uneven(group, at, most, largest)]
        others = self.row_bytes(group, [at for at in leaves if at not in uneven])
        row = 0
        for rows, cost in cut_by_cost(self._costs(group, uneven, others), _MOST_ITEMS, most):
            if rows == 1 and cost > room(largest):
                raise RowTooLarge(
                    f"row {row} of row group {group} (counted from 0) takes about {cost:,} bytes where its lists are "
                    f"decoded, and the task's memory_limit is {largest:,}: raise memory_limit"
                )
            yield rows
            row += rows
        yield from repeat(1)

    def even_rows(
        self, group: int, leaves: Sequence[int], most: int, largest: int, size: int = BATCH_BYTES
    ) -> int | None:
        """The number of rows to decode at a time: `most` at most, and about `size` bytes of wide ones. None where it is
        not always the same.
        """
        if any(self._is_uneven(group, at, most, largest) for at in leaves):
            return None
        row_bytes = self.row_bytes(group, leaves)
        size = size if row_bytes >= WIDE else BATCH_BYTES
        rows = rows_within(min(size, largest // _BATCH_SHARE), row_bytes, most)
        of_group = self._footer.groups[group].rows
        return -(-of_group // -(-of_group // rows)) if of_group else rows

    def dictionaries(self, group: int, leaves: Sequence[int], rows: int) -> dict[int, Page]:
        """The leaves of text or bytes that are read faster as dictionaries, `rows` rows at a time, and the pages of
        their dictionaries. A reader makes a copy of the dictionary for each batch, so that each of its values has to
        stand in several rows.
        """
        chosen: dict[int, Page] = {}
        room_left = _DICTIONARIES
        rows_of_group = self._footer.groups[group].rows
        for at in leaves if rows_of_group >= _WORTH_ROWS else ():
            chunk = self._footer.groups[group].chunks[at]
            if chunk.is_coded and chunk.physical == BYTE_ARRAY:
                page = self._pages(group, at).dictionary
                size = room_left + 1 if page is None else max(page.size, page.stored)
                if page is not None and size <= room_left and page.values * _TIMES_USED <= min(rows, rows_of_group):
                    room_left -= size
                    chosen[at] = page
        return chosen

    def _are_small(self, group: int, leaves: Sequence[int]) -> bool:
        """True where the pages of these leaves are small, whatever they and the footer say."""
        chunks = self._footer.groups[group].chunks
        if sum(most_bytes(chunks[at]) for at in leaves) > _SMALL:
            return False
        return not any(self._is_text(group, at) and self._pages(group, at).has_lengths for at in leaves)

    def _is_text(self, group: int, leaf: int) -> bool:
        return self._footer.groups[group].chunks[leaf].physical in _TEXTS

    def _pages(self, group: int, leaf: int) -> ChunkPages:
        key = group, leaf
        if key not in self._measured:
            chunk = self._footer.groups[group].chunks[leaf]
            self._measured[key] = measured(self._file, chunk, self._unfolded(group, leaf))
        return self._measured[key]

    def _unfolded(self, group: int, leaf: int) -> Callable[[Page], int]:
        return partial(unfolded_bytes, self._file, self._footer.groups[group].chunks[leaf], self._footer.leaves[leaf])

    def _row_bytes(self, group: int, leaf: int, *, densest: bool, is_small: bool) -> int:
        rows = max(self._footer.groups[group].rows, 1)
        chunk = self._footer.groups[group].chunks[leaf]
        count = self._pages(group, leaf).values if self._footer.leaves[leaf].repeats else rows
        decoded = self._footer.leaves[leaf].width * count
        written = chunk.uncompressed if is_small else self._pages(group, leaf).size
        average = max(written, decoded) // rows
        if densest and not is_small and not self._footer.leaves[leaf].repeats:
            average = max(average, self._pages(group, leaf).densest)
        # A value is in a page itself, or is written once: never both.
        return max(average, -(-count // rows) * self._repeated(group, leaf, count))

    def _repeated(self, group: int, leaf: int, count: int) -> int:
        """The bytes of the largest value of the leaf's dictionary; 0 where the leaf has no dictionary or its values are
        small anyway.
        """
        chunk = self._footer.groups[group].chunks[leaf]
        if chunk.physical != BYTE_ARRAY or not chunk.compressed:
            return 0
        dictionary = self._dictionary(group, leaf)
        if dictionary is None or dictionary.size * min(count, BATCH_ROWS) <= _MOST:
            return 0
        key = group, leaf
        if key not in self._largest:
            held = 0 if self._are_small(group, [leaf]) else self._pages(group, leaf).held
            self._largest[key] = dictionary.size if held > _MOST else self._largest_value(group, leaf, dictionary)
        return self._largest[key]

    def _dictionary(self, group: int, leaf: int) -> Page | None:
        key = group, leaf
        if key not in self._dictionaries:
            self._dictionaries[key] = dictionary_page(self._file, self._footer.groups[group].chunks[leaf])
        return self._dictionaries[key]

    def _largest_value(self, group: int, leaf: int, dictionary: Page) -> int:
        """The bytes of the largest value in the dictionary of a column."""
        chunk, path = self._footer.groups[group].chunks[leaf], ".".join(self._footer.leaves[leaf].path)
        if dictionary.values <= _FEW_VALUES and can_count(chunk):
            return largest_text(self._file, chunk, dictionary)
        parquet = pq.ParquetFile(
            self._file, metadata=self._metadata, read_dictionary=[path], pre_buffer=False, buffer_size=_BUFFER_BYTES
        )
        first = next(
            each_validated(parquet.iter_batches(1, row_groups=[group], columns=[path], use_threads=False)), None
        )
        return 0 if first is None else max(map(_longest, first.columns), default=0)

    def _is_uneven(self, group: int, leaf: int, most: int, largest: int) -> bool:
        """True where some rows may take much more than the average says."""
        chunk = self._footer.groups[group].chunks[leaf]
        if self._footer.leaves[leaf].repeats:
            allowed = max(_MOST, min(largest // 8, _MOST_LISTS))
            return can_count(chunk) and (self._items_bytes(group, leaf) > allowed or self._is_folded(group, leaf))
        if self._are_small(group, [leaf]):
            return False
        densest = self._pages(group, leaf).densest
        return densest * most > _MOST and densest > _UNEVEN * self.row_bytes(group, [leaf])

    def _is_folded(self, group: int, leaf: int) -> bool:
        """True where a list has many more items than bytes of the file."""
        chunk = self._footer.groups[group].chunks[leaf]
        if not self._footer.leaves[leaf].repeats or not can_count(chunk):
            return False
        return self._items_bytes(group, leaf) > max(_MOST, _FOLDED * chunk.compressed)

    def _costs(self, group: int, uneven: Sequence[int], others: int) -> Iterator[Counts]:
        """The bytes of each row, with all that a reader needs for the items of its lists, in blocks of rows."""
        streams = [self._leaf_costs(group, at) for at in uneven]
        for blocks in zip(*streams, strict=True):
            total = np.full(len(blocks[0]), others, np.int64)
            for block in blocks:
                total += block
            yield total

    def _leaf_costs(self, group: int, leaf: int) -> Iterator[Counts]:
        chunk, repeats = self._footer.groups[group].chunks[leaf], self._footer.leaves[leaf].repeats
        if not repeats:
            return page_costs(self._file, chunk, self._unfolded(group, leaf))
        width = self._item_bytes(group, leaf)
        return (block * width for block in row_items(self._file, chunk, repeats))

    def _items_bytes(self, group: int, leaf: int) -> int:
        """The bytes that a reader needs for all items of a leaf in lists."""
        return self._pages(group, leaf).values * self._item_bytes(group, leaf)

    def _item_bytes(self, group: int, leaf: int) -> int:
        """The bytes that a reader needs for an item: its value and its levels, in memory that grows by doubling."""
        of_chunk = self._pages(group, leaf)
        width = self._footer.leaves[leaf].width or of_chunk.densest + _OFFSET
        return 2 * (width + self._repeated(group, leaf, of_chunk.values) + _LEVELS)


def _longest(array: pa.Array) -> int:
    if kinds.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary)
        return int(np.asarray(lengths.fill_null(0)).max(initial=0))
    if kinds.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    if kinds.is_list(array.type) or kinds.is_large_list(array.type) or kinds.is_fixed_size_list(array.type):
        return _longest(array.values)
    if kinds.is_map(array.type):
        return max(_longest(array.keys), _longest(array.items))
    return 0

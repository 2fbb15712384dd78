"""Columns of numbers whose values lie in a Parquet file as Arrow has them in memory: in PLAIN, without nulls, in pages
that are not compressed and have no checksums. One call of the system reads these columns of a row group to their
places, and nothing is decoded.

The levels before the values of a page must say that all values are there. Where anything else is unexpected, the column
is left to pyarrow, which decodes it or says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from .....proto.arrow.parquet_footer import Footer, Leaf, RandomFile
from .....proto.arrow.thrift import Damaged
from ...file_versions import State
from ..parquet_headers import Page, pages
from .long_lists import PHYSICAL, fill

_FILES_KEPT: Final = 64
#: Files of more chunks are looked through for each split.
_CHUNKS_KEPT: Final = 4_096
#: Smaller chunks are decoded sooner than their pages are looked at.
_WORTH_BYTES: Final = 16 << 10
#: Smaller pages, on average, too; and a list of very many would take more memory than they are worth.
_WORTH_PAGE_BYTES: Final = 4 << 10
#: Columns that are not wanted are read, too, if they have fewer bytes: another call costs more.
_GAP_BYTES: Final = 16 << 10
#: A call of the system fills so many views.
_MOST_VIEWS: Final = 1_000
#: Arrow's buffers begin at multiples of so many bytes.
_ALIGNED: Final = 64
_ALL_THERE: Final = b"\x01"
_LENGTH: Final = 4
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a page: `size` bytes behind the levels, which are at byte `at` of the file."""

    at: int
    levels: bytes
    size: int


_Layout: TypeAlias = tuple[_Values, ...]
_View: TypeAlias = memoryview | bytearray


class _Call(NamedTuple):
    """The bytes of the file from `begin` to `end`, and views of the places for them."""

    begin: int
    end: int
    views: list[_View]


class PlainNumbers:
    """A column of a row group that was read, whose rows are taken from the first one on."""

    def __init__(self, field: pa.Field, values: pa.Array) -> None:
        self.field = field
        self._values = values
        self._row = 0

    def take(self, rows: int) -> pa.Array:
        """The values of the next rows."""
        first, self._row = self._row, self._row + rows
        return self._values if rows == len(self._values) else self._values.slice(first, rows)


def plain_numbers(
    file: RandomFile, descriptor: int, footer: Footer, group: int, fields: Sequence[pa.Field], state: State | None
) -> list[PlainNumbers]:
    """The columns of a row group among these that have plain numbers, in their order. All of them are read."""
    chunks = len(footer.groups) * len(footer.leaves)
    known = {} if state is None or chunks > _CHUNKS_KEPT else _known(state)
    plain: list[tuple[pa.Field, _Layout]] = []
    for field in fields:
        key = group, field.name
        if key not in known:
            known[key] = _layout(file, footer, group, field)
        layout = known[key]
        if layout is not None:
            plain.append((field, layout))
    arrays = _read(descriptor, plain, footer.groups[group].rows)
    if arrays is None:  # some levels say that values are not there
        known.update({(group, field.name): None for field in fields})
        return []
    return [PlainNumbers(field, array) for (field, _), array in zip(plain, arrays, strict=True)]


@lru_cache(_FILES_KEPT)
def _known(_state: State) -> dict[tuple[int, str], _Layout | None]:
    """The layouts of a file in this state, by row group and column, for the whole process."""
    return {}


def _layout(file: RandomFile, footer: Footer, group: int, field: pa.Field) -> _Layout | None:
    """The pages of a column, if its values can be read as they are."""
    positions = [at for at, leaf in enumerate(footer.leaves) if leaf.path[0] == field.name]
    if len(positions) != 1 or field.type not in PHYSICAL:
        return None
    leaf, chunk = footer.leaves[positions[0]], footer.groups[group].chunks[positions[0]]
    is_plain = len(leaf.path) == 1 and not leaf.repeats and leaf.physical == PHYSICAL[field.type]
    if not is_plain or chunk.codec or chunk.has_dictionary or chunk.nulls or chunk.compressed < _WORTH_BYTES:
        return None
    pages_values: list[_Values] = []
    try:
        for page in pages(file, chunk):
            values = _values(page, leaf)
            if values is None or len(pages_values) * _WORTH_PAGE_BYTES > chunk.compressed:
                return None
            pages_values.append(values)
    except Damaged:
        return None
    has_all = sum(values.size for values in pages_values) == footer.groups[group].rows * leaf.width
    return tuple(pages_values) if has_all and chunk.values == footer.groups[group].rows else None


def _values(page: Page, leaf: Leaf) -> _Values | None:
    """The values of a page; None where it has to be decoded."""
    is_as_it_is = page.is_plain and page.checksum is None and page.stored == page.size and all(page.levels.are_runs)
    levels = _levels(page.values) if leaf.has_levels else b""
    if page.levels.rows is None:
        levels = len(levels).to_bytes(_LENGTH, "little") + levels if leaf.has_levels else b""
    elif page.levels.rows or page.levels.values != len(levels):
        return None
    size = page.values * leaf.width
    return _Values(page.at, levels, size) if is_as_it_is and len(levels) + size == page.stored else None


def _levels(count: int) -> bytes:
    """The levels of so many values that are all there, as one run."""
    number, head = count << 1, bytearray()
    while number > _LOW_BITS:
        head.append(number & _LOW_BITS | _MORE)
        number >>= 7
    return bytes((*head, number)) + _ALL_THERE


def _read(descriptor: int, columns: Sequence[tuple[pa.Field, _Layout]], rows: int) -> list[pa.Array] | None:
    """The columns' values; None where the levels of one are not those that it should have. They are next to each other
    in memory: to ask for memory gives up the interpreter's lock, so it is done once.
    """
    sizes = [sum(page.size for page in layout) for _, layout in columns]
    starts = list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))
    memory = pa.allocate_buffer(starts[-1])
    levels: list[tuple[bytearray, bytes]] = []
    for call in _calls([layout for _, layout in columns], memoryview(memory).cast("B"), starts, levels):
        _fill(descriptor, call)
    if not all(read.endswith(expected) for read, expected in levels):
        return None
    return [
        pa.Array.from_buffers(field.type, rows, [None, memory.slice(start, size)], 0)
        for (field, _), start, size in zip(columns, starts, sizes, strict=False)
    ]


def _calls(
    layouts: Sequence[_Layout], memory: memoryview, starts: Sequence[int], levels: list[tuple[bytearray, bytes]]
) -> Iterator[_Call]:
    """Views of the places of all bytes, of one stretch of the file after the other. The values of a layout begin at its
    start in memory. Views that end with levels get into `levels`, too, each with the levels that it should have.
    """
    begin = end = 0
    views: list[_View] = []
    for layout, start in sorted(zip(layouts, starts, strict=False), key=lambda column: column[0][0].at):
        first = start
        for page in layout:
            if views and not (0 <= page.at - end <= _GAP_BYTES and len(views) < _MOST_VIEWS):
                yield _Call(begin, end, views)
                views = []
            if not views:
                begin = end = page.at
            skipped = bytearray(page.at - end + len(page.levels))
            levels.append((skipped, page.levels))
            views += (skipped, memory[first : first + page.size])
            first += page.size
            end = page.at + len(page.levels) + page.size
    if views:
        yield _Call(begin, end, views)


def _fill(descriptor: int, call: _Call) -> None:
    """Fill the views with the file's bytes."""
    if os.preadv(descriptor, call.views, call.begin) == call.end - call.begin:
        return
    at = call.begin  # a call may end early, as at a signal
    for view in call.views:
        fill(descriptor, memoryview(view), at)
        at += len(view)

"""Columns of numbers whose values lie in a Parquet file as Arrow has them in memory: in PLAIN, without nulls, in pages
that are not compressed and have no checksums. One call of the system reads these columns of a row group to their
places, and nothing is decoded.

The levels before the values of a page must say that all values are there. Where anything else is unexpected, the column
is left to pyarrow, which decodes it or says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from .....proto.arrow.parquet_footer import Footer, Leaf, RandomFile
from .....proto.arrow.thrift import Damaged
from ...file_versions import State, is_settled
from ..parquet_headers import Page, pages
from .long_lists import PHYSICAL, fill

_FILES_KEPT: Final = 64
#: Files of more chunks are looked through for each split.
_CHUNKS_KEPT: Final = 4_096
#: A reading takes some ten KiB of memory.
_READINGS_KEPT: Final = 1_024
#: Smaller chunks are decoded sooner than their pages are looked at.
_WORTH_BYTES: Final = 16 << 10
#: Smaller pages, on average, too; and a list of very many would take more memory than they are worth.
_WORTH_PAGE_BYTES: Final = 4 << 10
#: Columns that are not wanted are read, too, if they have fewer bytes: another call costs more.
_GAP_BYTES: Final = 16 << 10
#: A call of the system fills the places of so many pages, two for each.
_MOST_PAGES: Final = 500
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


class _Page(NamedTuple):
    """The places of a page: of what is before its values among the bytes between values, and of its values in memory.
    Each is (first, end).
    """

    before: tuple[int, int]
    values: tuple[int, int]


class _Call(NamedTuple):
    """The bytes of the file from `begin` to `end`, which fill the places of these pages."""

    begin: int
    end: int
    pages: list[_Page]


@dataclass(slots=True, eq=False)
class _Reading:
    """A reading of columns of a row group: each column's type and (first byte, size) in `memory` bytes, and the calls
    that read them with `between` bytes between values. `levels` has the positions among these at which levels have to
    be. Bytes between values that were once found right are `seen`.
    """

    columns: list[tuple[pa.Field, pa.DataType, int, int]]
    memory: int
    between: int
    calls: list[_Call]
    levels: list[tuple[int, bytes]]
    seen: bytes = b""

    def has_all(self, between: bytearray) -> bool:
        """True where the levels say that all values are there."""
        if self.seen != between:
            if not all(between.startswith(levels, at) for at, levels in self.levels):
                return False
            self.seen = bytes(between)
        return True


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
    if len(footer.groups) * len(footer.leaves) > _CHUNKS_KEPT or (state is not None and not is_settled(state)):
        state = None
    kept = [] if state is None else _kept(state, group, tuple(field.name for field in fields))
    if not kept:
        known = {} if state is None else _known(state)
        kept.append(_reading(_plain(file, footer, group, fields, known)))
    reading = kept[0]
    rows = footer.groups[group].rows
    arrays = None if reading is None else _read(descriptor, reading, rows)
    if arrays is None:  # there is no such column, or some levels say that values are not there
        kept[:] = [None]
        return []
    return arrays


def _plain(
    file: RandomFile,
    footer: Footer,
    group: int,
    fields: Sequence[pa.Field],
    known: dict[tuple[int, str], _Layout | None],
) -> list[tuple[pa.Field, _Layout]]:
    """The columns with plain numbers, with their pages."""
    plain: list[tuple[pa.Field, _Layout]] = []
    for field in fields:
        key = group, field.name
        if key not in known:
            known[key] = _layout(file, footer, group, field)
        layout = known[key]
        if layout is not None:
            plain.append((field, layout))
    return plain


@lru_cache(_READINGS_KEPT)
def _kept(_state: State, _group: int, _names: tuple[str, ...]) -> list[_Reading | None]:
    """A place for the reading of these columns of a file in this state, or for None if nothing can be read so."""
    return []


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


def _reading(columns: Sequence[tuple[pa.Field, _Layout]]) -> _Reading | None:
    """The reading of these columns; None without any. The values of a column are next to each other in memory."""
    if not columns:
        return None
    sizes = [sum(page.size for page in layout) for _, layout in columns]
    starts = list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))
    types = [(field, field.type) for field, _ in columns]
    reading = _Reading(
        [(*of_field, start, size) for of_field, start, size in zip(types, starts, sizes, strict=False)],
        memory=starts[-1],
        between=0,
        calls=[],
        levels=[],
    )
    _add_calls(reading, [layout for _, layout in columns], starts)
    return reading


def _add_calls(reading: _Reading, layouts: Sequence[_Layout], starts: Sequence[int]) -> None:
    """Add the calls, of one stretch of the file after the other. The values of a layout begin at its start."""
    begin = end = 0
    stretch: list[_Page] = []
    for layout, start in sorted(zip(layouts, starts, strict=False), key=lambda column: column[0][0].at):
        first = start
        for page in layout:
            if stretch and not (0 <= page.at - end <= _GAP_BYTES and len(stretch) < _MOST_PAGES):
                reading.calls.append(_Call(begin, end, stretch))
                stretch = []
            if not stretch:
                begin = end = page.at
            low, reading.between = reading.between, reading.between + page.at - end + len(page.levels)
            reading.levels.append((reading.between - len(page.levels), page.levels))
            stretch.append(_Page((low, reading.between), (first, first + page.size)))
            first += page.size
            end = page.at + len(page.levels) + page.size
    if stretch:
        reading.calls.append(_Call(begin, end, stretch))


def _read(descriptor: int, reading: _Reading, rows: int) -> list[PlainNumbers] | None:
    """The columns' values; None where the levels of one are not those that it should have. They are next to each other
    in memory: to ask for memory gives up the interpreter's lock, so it is done once.
    """
    memory, between = pa.allocate_buffer(reading.memory), bytearray(reading.between)
    values, others = memoryview(memory).cast("B"), memoryview(between)
    for begin, end, stretch in reading.calls:
        views = [view for (low, high), (at, to) in stretch for view in (others[low:high], values[at:to])]
        _fill(descriptor, begin, end, views)
    if not reading.has_all(between):
        return None
    return [
        PlainNumbers(field, pa.Array.from_buffers(type_, rows, [None, memory.slice(start, size)], 0))
        for field, type_, start, size in reading.columns
    ]


def _fill(descriptor: int, begin: int, end: int, views: Sequence[memoryview]) -> None:
    """Fill the views with the file's bytes from `begin` to `end`."""
    if os.preadv(descriptor, views, begin) == end - begin:
        return
    at = begin  # a call may end early, as at a signal
    for view in views:
        fill(descriptor, view, at)
        at += len(view)

"""The sizes of rows in a Parquet file, by what stands before the values of each page.

A row of a list column may have any number of items, and a few bytes may stand for millions of them. Levels say where
rows begin, as runs of equal levels and as packed bits. They are read run by run.

Texts in DELTA_BYTE_ARRAY and DELTA_LENGTH_BYTE_ARRAY have lists of packed numbers before their bytes: in the former,
how much each text shares with the one before, and in both, how many bytes of its own follow. So some hundred bytes may
stand for gigabytes of text. A reader unpacks as many numbers as a list says that it has, also if the page has fewer
values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from ....proto.arrow.parquet_footer import Chunk, Leaf, RandomFile
from ....proto.arrow.thrift import Damaged
from ...arrays.packed_numbers import Counts, Packed, packed, unpacked, varint
from ...core.interrupts import look
from .parquet_headers import Page, pages

#: Rows are counted in blocks of so many.
BLOCK_ROWS: Final = 1 << 16
_OLD_LZ4: Final = 5
_CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", _OLD_LZ4: "lz4_raw", 6: "zstd", 7: "lz4_raw"}
_LENGTH: Final = 4
_SIZE: Final = struct.Struct("<I")
_BITS: Final = 8
_PACKED: Final = 1 << 13
#: Longer runs are worth arrays of their own: of equal levels, and of groups of eight packed ones.
_SHORT_RUN: Final = 64
_LOOK_AT: Final = 1 << 12
_LONGER: Final = 0x80
_GROUPS_KEPT: Final = 1 << 12


def can_count(chunk: Chunk) -> bool:
    """True where the levels of a chunk can be read."""
    return not chunk.codec or chunk.codec in _CODECS


def row_items(file: RandomFile, chunk: Chunk, repeats: int) -> Iterator[Counts]:
    """The number of items (an empty list counts as one) of each row, in blocks of `BLOCK_ROWS`."""
    return _blocks(_lengths(file, chunk, repeats.bit_length()))


def page_costs(file: RandomFile, chunk: Chunk, unfolded: Callable[[Page], int]) -> Iterator[Counts]:
    """The bytes of each row of a column without lists, by the averages of its pages, in blocks of `BLOCK_ROWS`.
    `unfolded` tells the bytes of the values of a page with packed lengths.
    """
    return _blocks(part for page in pages(file, chunk) for part in _costs(page, unfolded))


def _costs(page: Page, unfolded: Callable[[Page], int]) -> Iterator[Counts]:
    if page.is_dictionary or not page.values:
        return
    average = (unfolded(page) if page.lengths else page.size) // page.values
    for start in range(0, page.values, BLOCK_ROWS):
        yield np.full(min(BLOCK_ROWS, page.values - start), average, np.int64)


def _lengths(file: RandomFile, chunk: Chunk, width: int) -> Iterator[Counts]:
    """The distances between the beginnings of rows."""
    at = begin = 0
    is_first = True
    for page in pages(file, chunk):
        if page.is_dictionary:
            continue
        for starts in row_starts(_levels(file, chunk, page), width, page.values):
            positions = starts + at
            if is_first:
                is_first = not len(positions)
                begin = int(positions[0]) if len(positions) else begin
                positions = positions[1:]
            if len(positions):
                yield np.diff(positions, prepend=begin)
                begin = int(positions[-1])
        at += page.values
    if not is_first:
        yield np.array([at - begin], np.int64)


def _levels(file: RandomFile, chunk: Chunk, page: Page) -> bytes:
    """The bytes that say where the rows of a page begin."""
    if page.levels.rows is not None:
        return bytes(file.read_at(min(page.levels.rows, page.stored), page.at))
    if not page.levels.are_runs[0]:
        raise Damaged(f"the page at byte {page.header:,} has levels in BIT_PACKED, which runs replaced in 2013")
    data = _body(file, chunk, page)
    length = int.from_bytes(data[:_LENGTH], "little")
    return data[_LENGTH : _LENGTH + length]


def page_values(file: RandomFile, chunk: Chunk, leaf: Leaf, page: Page) -> bytes:
    """The bytes of a page's values, behind its levels."""
    if page.levels.rows is not None:
        before = min(page.levels.rows + (page.levels.values or 0), page.stored)
        data = bytes(file.read_at(page.stored - before, page.at + before))
        return _decompressed(data, chunk, max(page.size - before, 0)) if page.is_compressed else data
    data, at = _body(file, chunk, page), 0
    for has_levels, are_runs in zip((leaf.repeats > 0, leaf.has_levels), page.levels.are_runs, strict=True):
        if has_levels and not are_runs:
            raise Damaged(f"the page at byte {page.header:,} has levels in BIT_PACKED, which runs replaced in 2013")
        at += (_LENGTH + int.from_bytes(data[at : at + _LENGTH], "little")) if has_levels else 0
    return data[at:]


def unfolded_bytes(file: RandomFile, chunk: Chunk, leaf: Leaf, page: Page) -> int:
    """The bytes of the texts of a page with packed lengths; if they share beginnings, as if all were as long as the
    longest one. No text is longer than its page, which counts where the lengths are not known.
    """
    largest = max(page.size, page.stored)
    most = largest * page.values if page.shares else page.size
    if page.is_closed:
        return most
    data, lists = _lists(file, chunk, leaf, page)
    if not page.shares or len(lists) < page.lengths:
        return most
    shared, own = (unpacked(data, numbers) for numbers in lists)
    lengths = np.concatenate((shared, own))
    is_whole = len(shared) == len(own) and not np.any((lengths < 0) | (lengths > largest))
    is_whole = is_whole and lists[-1].end + own.sum() == len(data)
    return min(int((shared + own).max(initial=0)) * page.values, most) if is_whole else most


def check_lengths(file: RandomFile, chunk: Chunk, leaf: Leaf, page: Page) -> None:
    """Raise `Damaged` where a page has more packed lengths than values."""
    _lists(file, chunk, leaf, page)


def _lists(file: RandomFile, chunk: Chunk, leaf: Leaf, page: Page) -> tuple[bytes, list[Packed]]:
    """The bytes of a page's values, and the lists of lengths at their beginning."""
    if not can_count(chunk):
        raise Damaged(f"the page at byte {page.header:,} is compressed in a way that cannot be read")
    data = page_values(file, chunk, leaf, page)
    lists: list[Packed] = []
    for _ in range(page.lengths if data else 0):  # a page of nulls may be empty
        lists.append(packed(data, lists[-1].end if lists else 0, page.values))
    return data, lists


def largest_text(file: RandomFile, chunk: Chunk, page: Page) -> int:
    """The bytes of the largest text of a dictionary."""
    data = _body(file, chunk, page)
    largest = at = 0
    try:
        for _ in range(page.values):
            (size,) = _SIZE.unpack_from(data, at)
            at += _LENGTH + size
            if size > largest:
                largest = size
    except struct.error:
        at = len(data) + 1
    if at > len(data):
        raise Damaged(f"the dictionary at byte {page.header:,} ends before its last value")
    return largest


def _body(file: RandomFile, chunk: Chunk, page: Page) -> bytes:
    """The bytes of a page that is compressed as a whole, if it is compressed."""
    return _decompressed(file.read_at(page.stored, page.at), chunk, page.size)


def _decompressed(data: bytes, chunk: Chunk, size: int) -> bytes:
    if not chunk.codec:
        return bytes(data)
    codec = pa.Codec(_CODECS[chunk.codec])
    blocks = hadoop_blocks(data, size) if chunk.codec == _OLD_LZ4 else [(data, size)]
    return b"".join(codec.decompress(block, size, asbytes=True) for block, size in blocks)


def hadoop_blocks(data: bytes, size: int) -> list[tuple[bytes, int]]:
    """The blocks of LZ4 in data that has `size` bytes once it is decompressed, each with the size of its own. Hadoop
    writes both lengths of a block before it; other old writers write one block without them.
    """
    blocks, at, total = [], 0, 0
    while at + 2 * _LENGTH <= len(data):
        decoded = int.from_bytes(data[at : at + _LENGTH], "big")
        begin = at + 2 * _LENGTH
        at = begin + int.from_bytes(data[at + _LENGTH : begin], "big")
        blocks.append((data[begin:at], decoded))
        total += decoded
    return blocks if blocks and at == len(data) and total == size else [(data, size)]


def row_starts(levels: bytes, width: int, count: int) -> Iterator[Counts]:
    """The positions of the levels that are 0, among `count` levels."""
    at = position = runs = 0
    value_bytes = -(-width // _BITS)
    held: list[int] = []
    while position < count:
        if at >= len(levels):
            raise Damaged("a page has fewer levels than values")
        head, at = (levels[at], at + 1) if levels[at] < _LONGER else varint(levels, at)
        number = head >> 1
        if not head & 1:
            length = min(number, count - position)
            if not any(levels[at : at + value_bytes]):
                if length > _SHORT_RUN:
                    yield _taken(held, count)
                    yield from _counted(position, length)
                else:
                    held += range(position, position + length)
            at += value_bytes
            position += length
        elif number <= _SHORT_RUN:
            for first in range(at, min(at + number * width, len(levels)), width):
                group = int.from_bytes(levels[first : first + width], "little")
                held += [position + zero for zero in _zeros(group, width)]
                position += _BITS
            at += number * width
        else:
            yield _taken(held, count)
            packed = np.frombuffer(levels, np.uint8, min(number * width, len(levels) - at), at)
            at += number * width
            for start in range(0, len(packed), _PACKED * width):
                bits = np.unpackbits(packed[start : start + _PACKED * width], bitorder="little")
                zeros = np.flatnonzero(~bits[: len(bits) // width * width].reshape(-1, width).any(axis=1))
                yield zeros[zeros < count - position] + position
                position += len(bits) // width
        if len(held) > BLOCK_ROWS:
            yield _taken(held, count)
        runs += 1
        if runs % _LOOK_AT == 0:
            look()
    yield _taken(held, count)


@lru_cache(maxsize=_GROUPS_KEPT)
def _zeros(group: int, width: int) -> tuple[int, ...]:
    """The positions of the levels that are 0 in a group of eight, which is read as one number."""
    most = (1 << width) - 1
    return tuple(number for number in range(_BITS) if not group >> number * width & most)


def _taken(held: list[int], count: int) -> Counts:
    """The positions below `count`, which are no longer held."""
    positions = np.array(held, np.int64)
    held.clear()
    return positions[positions < count]


def _counted(position: int, length: int) -> Iterator[Counts]:
    """So many positions from the first one on, in blocks."""
    for start in range(0, length, BLOCK_ROWS):
        yield np.arange(position + start, position + min(start + BLOCK_ROWS, length))


def _blocks(parts: Iterable[Counts]) -> Iterator[Counts]:
    held: list[Counts] = []
    rows = 0
    for part in parts:
        held.append(part)
        rows += len(part)
        if rows >= BLOCK_ROWS:
            joined = np.concatenate(held)
            while len(joined) >= BLOCK_ROWS:
                yield joined[:BLOCK_ROWS]
                joined = joined[BLOCK_ROWS:]
            held, rows = [joined], len(joined)
    if rows:
        yield np.concatenate(held)


def cut_by_cost(blocks: Iterable[Counts], most: int, most_rows: int) -> Iterator[tuple[int, int]]:
    """Cut rows, whose costs are in blocks, into runs of at most `most_rows` rows that cost at most `most`, or of one
    row: the number of rows of each run, and its cost.
    """
    for block in blocks:
        up_to = np.cumsum(block)
        start = spent = 0
        while start < len(block):
            end = int(np.searchsorted(up_to, spent + most, side="right"))
            end = max(min(end, start + most_rows), start + 1)
            yield end - start, int(up_to[end - 1]) - spent
            start, spent = end, int(up_to[end - 1])

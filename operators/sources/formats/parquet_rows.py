"""The number of items of each row of a list column in a Parquet file, by its levels alone.

A row may have any number of items, and a few bytes may stand for millions of them. The levels, which say where rows
begin, stand before the values in each page, as runs of equal levels and as packed bits. They are read run by run.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....proto.arrow.parquet_footer import Chunk, RandomFile
from ....proto.arrow.thrift import Damaged
from ...core.interrupts import look
from .parquet_headers import Page, pages

Counts = npt.NDArray[np.int64]

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


def page_costs(file: RandomFile, chunk: Chunk) -> Iterator[Counts]:
    """The bytes of each row of a column without lists, by the averages of its pages, in blocks of `BLOCK_ROWS`."""
    return _blocks(
        np.full(min(BLOCK_ROWS, page.values - start), page.size // page.values, np.int64)
        for page in pages(file, chunk)
        for start in range(0, 0 if page.is_dictionary else page.values, BLOCK_ROWS)
    )


def _lengths(file: RandomFile, chunk: Chunk, width: int) -> Iterator[Counts]:
    """The distances between the beginnings of rows."""
    at = begin = 0
    is_first = True
    for page in pages(file, chunk):
        if page.is_dictionary:
            continue
        for starts in _row_starts(_levels(file, chunk, page), width, page.values):
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
    if page.levels is not None:
        return bytes(file.read_at(min(page.levels, page.stored), page.at))
    data = _body(file, chunk, page)
    length = int.from_bytes(data[:_LENGTH], "little")
    return data[_LENGTH : _LENGTH + length]


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
    data = file.read_at(page.stored, page.at)
    if not chunk.codec:
        return bytes(data)
    codec = pa.Codec(_CODECS[chunk.codec])
    blocks = hadoop_blocks(data, page.size) if chunk.codec == _OLD_LZ4 else [(data, page.size)]
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


def _row_starts(levels: bytes, width: int, count: int) -> Iterator[Counts]:
    """The positions of the levels that are 0, among `count` levels."""
    at = position = runs = 0
    value_bytes = -(-width // _BITS)
    held: list[int] = []
    while position < count:
        if at >= len(levels):
            raise Damaged("a page has fewer levels than values")
        head, at = (levels[at], at + 1) if levels[at] < _LONGER else _varint(levels, at)
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


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
        shift += 7
    raise Damaged("a page's levels end in the middle of a number")


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

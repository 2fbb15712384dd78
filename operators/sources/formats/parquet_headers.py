"""The pages of a Parquet file's column chunks, by their headers alone.

A page is decoded as a whole, and its header says how many bytes it takes then. The footer says so as well, for all
pages of a chunk, but a reader does not compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ....proto.arrow.parquet_footer import DICTIONARY_ENCODINGS, Chunk, RandomFile
from ....proto.arrow.thrift import BOOLEAN, INTEGER, Damaged, Shape, Struct, read, struct_of
from ...core.interrupts import look

_FIRST_BYTES: Final = 1 << 8
_MOST_BYTES: Final = 1 << 24
_LOOK_AT: Final = 1 << 10
#: The most bytes that a codec makes of a byte; of other codecs there is no telling.
_EXPANSION: Final = {0: 1, 1: 22, 5: 255, 7: 255}
_MOST_PAGE: Final = 1 << 31

_STORED: Final = 3
CHECKSUM: Final = 4
_DICTIONARY: Final = 2
_HEADER: Final[Shape] = {
    1: INTEGER,
    2: INTEGER,
    _STORED: INTEGER,
    CHECKSUM: INTEGER,
    5: struct_of({1: INTEGER, 2: INTEGER}),
    7: struct_of({1: INTEGER}),
    8: struct_of({1: INTEGER, 4: INTEGER, 6: INTEGER, 7: BOOLEAN}),
}
#: The struct of a header, and its field, with the encoding of values, by the kind of page.
_ENCODINGS: Final = {0: (5, 2), 3: (8, 4)}


@dataclass(frozen=True, slots=True)
class Page:
    """A page, whose header is at `header`: `stored` bytes of the file from `at` on, `size` bytes once it is
    decompressed. `is_coded` says whether its values are places in the dictionary. `levels` is the number of bytes that
    say where rows begin, where these bytes are not compressed.
    """

    header: int
    at: int
    stored: int
    size: int
    values: int
    is_dictionary: bool
    is_coded: bool
    levels: int | None
    checksum: int | None


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """All pages of a chunk: the bytes that a reader holds for them, the values and bytes of all, and the bytes of a
    value, on average, in the page where it is largest. `dictionary` is the chunk's only dictionary, if all values are
    places in it.
    """

    held: int
    values: int
    size: int
    densest: int
    dictionary: Page | None


def page_header(file: RandomFile, at: int, end: int) -> tuple[Struct, int]:
    """The header of the page at `at`, and the position of the page's body. A header has bounds of the page's values, of
    any length.
    """
    size = _FIRST_BYTES
    while True:
        data = file.read_at(min(size, end - at), at)
        try:
            header, length = read(data, 0, _HEADER)
        except Damaged:
            if len(data) < size or size >= _MOST_BYTES:
                raise
            size *= 16
            continue
        return header, at + length


def pages(file: RandomFile, chunk: Chunk, column: str = "") -> Iterator[Page]:
    """The pages of a chunk, in order. Errors name the `column`."""
    of_column = f" of column {column!r}" if column else ""
    at, end, number = chunk.start, chunk.start + chunk.compressed, 0
    while at < end:
        header, body = page_header(file, at, end)
        stored, size = header.get(_STORED, -1), header.get(2, -1)
        if not 0 <= stored <= end - body or size < 0:
            raise Damaged(f"the page{of_column} at byte {at:,} is damaged")
        data = header.get(5) or header.get(7) or header.get(8) or {}
        levels = None if 8 not in header else header[8].get(6, 0)
        is_dictionary, checksum = header.get(1) == _DICTIONARY, header.get(CHECKSUM)
        is_coded = _encoding(header) in DICTIONARY_ENCODINGS
        yield Page(at, body, stored, size, data.get(1, 0), is_dictionary, is_coded, levels, checksum)
        at = body + stored
        number += 1
        if number % _LOOK_AT == 0:
            look()


def _encoding(header: Struct) -> int | None:
    """The encoding of the values of a page."""
    struct, field = _ENCODINGS.get(header.get(1, -1), (0, 0))
    encoding: int | None = header.get(struct, {}).get(field)
    return encoding


def measured(file: RandomFile, chunk: Chunk) -> ChunkPages:
    """The pages of a chunk. A reader holds one page, compressed and not, and the values of the dictionary."""
    held = values = size = densest = 0
    dictionaries = []
    are_coded = True
    for page in pages(file, chunk):
        size += page.size
        if page.is_dictionary:
            dictionaries.append(page)
        else:
            are_coded = are_coded and page.is_coded
            values += page.values
            held = max(held, page.size + (page.stored if chunk.codec else 0))
            densest = max(densest, page.size // max(page.values, 1))
    held += 2 * max((page.size for page in dictionaries), default=0)
    return ChunkPages(held, values, size, densest, dictionaries[0] if are_coded and len(dictionaries) == 1 else None)


def dictionary_page(file: RandomFile, chunk: Chunk) -> Page | None:
    """The page of the chunk's dictionary; None where it has none."""
    first = next(pages(file, chunk), None)
    return first if first is not None and first.is_dictionary else None


def most_bytes(chunk: Chunk) -> int:
    """The most bytes that the pages of a chunk may take, whatever they and the footer say."""
    return min(chunk.compressed * (_EXPANSION.get(chunk.codec, _MOST_PAGE) + 1), _MOST_PAGE)

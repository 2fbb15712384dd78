"""The pages of a Parquet file's column chunks, by their headers alone.

A page is decoded as a whole, and its header says how many bytes it takes then. The footer says so as well, for all
pages of a chunk, but a reader does not compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
_PLAIN: Final = 0
CHECKSUM: Final = 4
_DICTIONARY: Final = 2
_HEADER: Final[Shape] = {
    1: INTEGER,
    2: INTEGER,
    _STORED: INTEGER,
    CHECKSUM: INTEGER,
    5: struct_of({1: INTEGER, 2: INTEGER, 3: INTEGER, 4: INTEGER}),
    7: struct_of({1: INTEGER}),
    8: struct_of({1: INTEGER, 4: INTEGER, 5: INTEGER, 6: INTEGER, 7: BOOLEAN}),
}
#: The struct of a header, and its field, with the encoding of values, by the kind of page.
_ENCODINGS: Final = {0: (5, 2), 3: (8, 4)}
#: The lists of packed lengths before the values of a page: in DELTA_LENGTH_BYTE_ARRAY those of the texts, in
#: DELTA_BYTE_ARRAY those of the beginnings that texts share with the texts before them, and those of what follows.
_LENGTHS: Final = {6: 1, 7: 2}
_SHARED_BEGINNINGS: Final = 2
#: The bytes of a length. A reader unpacks all lengths of a page.
_LENGTH: Final = 4
#: Pages of more bytes or values are not looked into before it is known that they fit into memory.
_LARGEST_LOOKED_INTO: Final = 32 << 20
_MOST_LOOKED_INTO: Final = 1 << 20
#: The bytes of a page that was not looked into.
_UNKNOWN: Final = 1 << 40
#: The encoding of levels that writers use.
_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a page, which say where rows begin and where values are. In pages of the first form their bytes are
    part of what is compressed, and both numbers are None. `are_runs` says of either whether it is encoded in runs.
    """

    rows: int | None = None
    values: int | None = None
    are_runs: tuple[bool, bool] = (True, True)


@dataclass(frozen=True, slots=True)
class Page:
    """A page, whose header is at `header`: `stored` bytes of the file from `at` on, `size` bytes once it is
    decompressed. `is_coded` says whether its values are places in the dictionary, `is_plain` whether they are written
    as they are. `lengths` is the number of lists of packed lengths before its values.
    """

    header: int
    at: int
    stored: int
    size: int
    values: int
    is_dictionary: bool
    is_coded: bool
    is_plain: bool
    is_compressed: bool
    lengths: int
    levels: Levels
    checksum: int | None

    @property
    def shares(self) -> bool:
        """True where its texts are written without the beginnings that they share."""
        return self.lengths == _SHARED_BEGINNINGS

    @property
    def is_closed(self) -> bool:
        """True where its lengths are not looked into before it is known that the page fits into memory."""
        largest = max(self.size, self.stored)
        return self.lengths > 0 and (largest > _LARGEST_LOOKED_INTO or self.values > _MOST_LOOKED_INTO)


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """All pages of a chunk: the bytes that a reader holds for them, the values and bytes of all, and the bytes of a
    value, on average, in the page where it is largest. `dictionary` is the chunk's only dictionary, if all values are
    places in it. `has_lengths` says whether a page has lists of packed lengths. `unfolded` is the most bytes of the
    values of a page whose texts share their beginnings, or more than there is where it was not looked into.
    """

    held: int
    values: int
    size: int
    densest: int
    dictionary: Page | None
    has_lengths: bool
    unfolded: int


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
        first, second = header.get(5, {}), header.get(8, {})
        data = first or header.get(7) or second
        encoding = _encoding(header)
        yield Page(
            at,
            body,
            stored,
            size,
            data.get(1, 0),
            header.get(1) == _DICTIONARY,
            encoding in DICTIONARY_ENCODINGS,
            encoding == _PLAIN and header.get(1) != _DICTIONARY,
            second.get(7, True),
            _LENGTHS.get(encoding, 0),
            _levels(header),
            header.get(CHECKSUM),
        )
        at = body + stored
        number += 1
        if number % _LOOK_AT == 0:
            look()


def _levels(header: Struct) -> Levels:
    if 8 in header:
        return Levels(header[8].get(6, 0), header[8].get(5, 0))
    first = header.get(5, {})
    return Levels(are_runs=(first.get(4) == _RUNS, first.get(3) == _RUNS))


def _encoding(header: Struct) -> int:
    """The encoding of the values of a page; -1 where it has none."""
    struct, field = _ENCODINGS.get(header.get(1, -1), (0, 0))
    encoding: int = header.get(struct, {}).get(field, -1)
    return encoding


def measured(file: RandomFile, chunk: Chunk, unfolded: Callable[[Page], int]) -> ChunkPages:
    """The pages of a chunk. A reader holds one page, compressed and not, and the values of the dictionary. `unfolded`
    tells the bytes of the values of a page with packed lengths.
    """
    held = values = size = densest = lengths = largest = 0
    dictionaries = []
    are_coded = True
    for page in pages(file, chunk):
        decoded = unfolded(page) if page.lengths else page.size
        if page.shares or page.is_closed:
            largest = max(largest, _UNKNOWN if page.is_closed else decoded)
        size += decoded
        if page.is_dictionary:
            dictionaries.append(page)
        else:
            are_coded = are_coded and page.is_coded
            lengths = max(lengths, page.lengths)
            values += page.values
            beside = page.stored if chunk.codec else 0
            held = max(held, page.size + beside + page.values * page.lengths * _LENGTH)
            densest = max(densest, decoded // max(page.values, 1))
    held += 2 * max((page.size for page in dictionaries), default=0)
    dictionary = dictionaries[0] if are_coded and len(dictionaries) == 1 else None
    return ChunkPages(held, values, size, densest, dictionary, lengths > 0, largest)


def dictionary_page(file: RandomFile, chunk: Chunk) -> Page | None:
    """The page of the chunk's dictionary; None where it has none."""
    first = next(pages(file, chunk), None)
    return first if first is not None and first.is_dictionary else None


def most_bytes(chunk: Chunk) -> int:
    """The most bytes that the pages of a chunk may take, whatever they and the footer say."""
    return min(chunk.compressed * (_EXPANSION.get(chunk.codec, _MOST_PAGE) + 1), _MOST_PAGE)

"""Verification of the checksums of a Parquet file's pages, because DuckDB reads files without it.

A checksum is in the header of its page, and covers the page as it is stored. Writers make one for every page or for
none. The verified parts of a file are remembered for as long as the file does not change.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

import pyarrow as pa

from ....proto.arrow.parquet_footer import Chunk, Footer, RandomFile, read_footer
from ....proto.arrow.thrift import Damaged
from ..byte_ranges import ByteRanges
from .parquet_headers import CHECKSUM, page_header, pages

_BLOCK_BYTES: Final = 1 << 20
_REMEMBERED: Final = 10_000
_UNSIGNED: Final = 0xFFFFFFFF


def has_checksums(file: RandomFile, footer: Footer) -> bool:
    """True where the file's first page has a checksum. The reader of the file refuses a damaged header."""
    for chunk in (chunk for group in footer.groups for chunk in group.chunks if chunk.compressed):
        try:
            return CHECKSUM in page_header(file, chunk.start, chunk.start + chunk.compressed)[0]
        except Damaged:
            return False
    return False


def check_pages(
    path: str,
    names: Sequence[str],
    rows: tuple[int, int] | None,
    look: Callable[[], None],
    read: ByteRanges | None = None,
    known: Callable[[Chunk], bool] = lambda _: False,
) -> list[Chunk] | None:
    """Raise `Damaged` for a page with a wrong checksum, among the pages of these columns in the row groups with these
    rows; with `read`, only among the pages that are in these bytes, in chunks that are not `known` to be sound.
    Return the chunks that were verified as a whole, or None where all are sound. `look` is called before each chunk.
    """
    sound: list[Chunk] = []
    are_all = True
    with pa.OSFile(path) as file:
        footer = read_footer(file)
        for chunk, name in _chunks(footer, frozenset(names), rows):
            if read is None:
                look()
                _check(file, chunk, name)
            elif not known(chunk):
                is_whole = read.cover(chunk.start, chunk.end)
                are_all &= is_whole
                if read.touch(chunk.start, chunk.end):
                    look()
                    _check(file, chunk, name, None if is_whole else read)
                if is_whole:
                    sound.append(chunk)
    return None if are_all else sound


def _chunks(footer: Footer, names: frozenset[str], rows: tuple[int, int] | None) -> Iterator[tuple[Chunk, str]]:
    bounds = pairwise(accumulate((group.rows for group in footer.groups), initial=0))
    for group, (start, end) in zip(footer.groups, bounds, strict=True):
        if rows is None or max(start, rows[0]) < min(end, rows[1]):
            for leaf, chunk in zip(footer.leaves, group.chunks, strict=True):
                if leaf.path[0] in names:
                    yield chunk, ".".join(leaf.path)


def _check(file: RandomFile, chunk: Chunk, name: str, read: ByteRanges | None = None) -> None:
    for page in pages(file, chunk, name):
        if page.checksum is None or (read is not None and not read.cover(page.at, page.at + page.stored)):
            continue
        if _checksum(file, page.at, page.stored) != page.checksum & _UNSIGNED:
            raise Damaged(f"the page of column {name!r} at byte {page.header:,} does not match its checksum")


def _checksum(file: RandomFile, at: int, size: int) -> int:
    checksum = 0
    for start in range(at, at + size, _BLOCK_BYTES):
        checksum = zlib.crc32(file.read_at(min(_BLOCK_BYTES, at + size - start), start), checksum)
    return checksum


class Verified:
    """The verified parts of files, for the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, None] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._known

    def add(self, key: Hashable) -> None:
        with self._lock:
            self._known[key] = None
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


verified: Final = Verified()

"""The interface of a file format: tell a file's contents without reading its rows, and read the rows."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import ClassVar, Final, Protocol

import pyarrow as pa

from ...core.blocks import blocks
from ...core.column import Column
from ...core.piece import FilePiece
from ...core.sizes import BATCH_BYTES
from ..file_versions import PieceFiles

#: The most rows up to which neighbouring row groups or record batches become one piece.
PIECE_ROWS = 100_000
BATCH_ROWS = 65_536
_BESIDE: Final = 64 << 20


class TooLarge(ValueError):
    """Bytes of a file that cannot be decoded within `PieceFiles.largest`. The message says which."""

    reason: ClassVar[str]


class RowTooLarge(TooLarge):
    """A row that is larger, or too large to be decoded."""

    reason = "ROW_TOO_LARGE"


class PartTooLarge(TooLarge):
    """A part that can only be decoded as a whole: a page, a dictionary."""

    reason = "PART_TOO_LARGE"


def room(largest: int) -> int:
    """The bytes that a reader may take to decode what cannot be divided, where a row may have `largest`."""
    return largest + _BESIDE


def part_too_large(what: str, size: int, largest: int, smaller: str) -> PartTooLarge:
    """The error for a part of `size` bytes; writers of files should make `smaller` ones."""
    return PartTooLarge(
        f"{what} takes {size:,} bytes once it is decoded, as a whole, and the task's memory_limit is {largest:,}: "
        f"raise memory_limit, or write {smaller}"
    )


def numbered(
    first: int, batch: pa.RecordBatch, rows: int = BATCH_ROWS, size: int = BATCH_BYTES
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a batch that begins at row `first` of its file into parts of a fair size, each with its first row."""
    for part in blocks((batch,), rows, size):
        yield first, part
        first += part.num_rows


class Reader(Protocol):
    """An open file. `schema` has the file's columns. `batches` reads the columns at `indices`, in that order, and gives
    each batch with the number of its first row in the file.
    """

    schema: pa.Schema

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]: ...

    def close(self) -> None: ...


class Format(Protocol):
    """A file format. `ranges` says whether splits may ask for rows and row groups, `compressed` whether a file as a
    whole may be compressed.

    `open` and `read` let Arrow's errors about a bad file through.
    """

    @property
    def name(self) -> str: ...

    @property
    def endings(self) -> tuple[str, ...]: ...

    @property
    def ranges(self) -> bool: ...

    @property
    def compressed(self) -> bool: ...

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> tuple[FilePiece, ...]:
        """Cut `piece` into pieces that are read as a whole, with all that the file tells about each."""
        ...

    def opened_before(self, piece: FilePiece, columns: Sequence[Column]) -> tuple[FilePiece, ...] | None:
        """The pieces that `open` would give, if the file was opened and has not changed since. It is not opened. None
        if the format has kept nothing of the file.
        """
        ...

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> Reader:
        """Open `piece` for reading. `columns` are the wanted ones; text is read as their types."""
        ...


class OpenedAnew:
    """A part of formats that keep nothing of a file that was opened."""

    def opened_before(self, _piece: FilePiece, _columns: Sequence[Column]) -> None:
        """None."""

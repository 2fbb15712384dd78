"""What a file format does: say what is in a file without reading its rows, and read them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from ...core.blocks import blocks
from ...core.column import Column
from ...core.piece import FilePiece
from ...core.sizes import BATCH_BYTES
from ..file_versions import Files

#: Neighbouring row groups or record batches become one piece up to so many rows.
PIECE_ROWS = 100_000
BATCH_ROWS = 65_536


def numbered(first: int, batch: pa.RecordBatch, rows: int = BATCH_ROWS) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a batch that begins at row `first` of its file into parts of a fair size, each with its first row."""
    for part in blocks((batch,), rows, BATCH_BYTES):
        yield first, part
        first += part.num_rows


class Reader(Protocol):
    """An open file. `schema` has its columns; `batches` gives those at `indices`, in that order, each batch with the
    number of its first row in the file.
    """

    schema: pa.Schema

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]: ...

    def close(self) -> None: ...


class Format(Protocol):
    """`ranges` says whether rows and row groups can be asked for, `compressed` whether a file as a whole may be.

    Both methods raise what Arrow raises for files that are not what they should be.
    """

    @property
    def name(self) -> str: ...

    @property
    def endings(self) -> tuple[str, ...]: ...

    @property
    def ranges(self) -> bool: ...

    @property
    def compressed(self) -> bool: ...

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:
        """Cut `piece` into those that are read as a whole, with what the file tells about them."""
        ...

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> Reader:
        """Open `piece` for reading. `columns` are those that are wanted: text is read as their types."""
        ...

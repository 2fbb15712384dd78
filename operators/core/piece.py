"""Pieces: the parts of a split that go to one channel as a whole. This module has values only; `scan` and `fragment`
read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from ...proto.values import MissingColumns
from .row_reader import RowReader


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """The identity of a file when its split was accepted. Another size or time later is an error, not another
    answer.
    """

    size: int
    modified_ns: int

    @property
    def text(self) -> str:
        """The version as clients hand it back."""
        return f"{self.size}-{self.modified_ns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """A range of rows by the value of a file's column: `low <= value < high`. None is no bound."""

    column: str
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilePiece:
    """Rows of one file: all of them, or `rows[0] <= row number < rows[1]`.

    `split_pieces.expand` makes a piece from names and sizes alone; `rows` and `row_groups` are then those of the split.
    `split_pieces.open_pieces` reads the file's metadata, no rows, and cuts the piece. It fills these fields, and leaves
    None where the format does not tell:

    - `schema`: the file's own schema, as Arrow sees it
    - `file_rows`, `row_count`: the rows of the file, and of this piece
    - `file_groups`: the row groups (or record batches) of the file
    - `byte_count`: about the bytes of the piece
    - `row_bytes`: about the bytes of a row of the wanted columns, in the row group where it is largest
    - `part_bytes`: about the bytes of what is decoded as a whole in the wanted columns, pages and long lists, where
      these may be large
    - `checksums`: whether the file's pages have any
    - `never_null`: the columns that are known to hold no null
    - `int96`: the columns of a Parquet file that have instants in INT96
    - `batch_starts`: the first row of each record batch of an Arrow file

    `partition` holds the columns of the file's Hive-style folders, as strings. `origin` names the split for messages:
    source and sequence. `change_column` and `missing_columns` are those of the split: the column with the rows'
    weights, and the meaning of columns that the file lacks. `number` is the split's number, for the columns `_split`
    and `_row` that the file lacks.

    `key_bounds` are the least and greatest value of the columns (by the file's name) that were asked for as keys and
    hold no null. A piece with `keys` means the rows in that range alone. Rows of a Dataset's partition have its number
    `part`.
    """

    path: str
    format: str
    version: FileVersion
    origin: str
    schema: pa.Schema | None = None
    rows: tuple[int, int] | None = None
    row_groups: tuple[int, ...] | None = None
    row_count: int | None = None
    file_rows: int | None = None
    file_groups: int | None = None
    byte_count: int | None = None
    row_bytes: int | None = None
    part_bytes: int | None = None
    checksums: bool = False
    never_null: frozenset[str] = frozenset()
    int96: frozenset[str] = frozenset()
    key_bounds: tuple[tuple[str, int, int], ...] = ()
    keys: KeyRange | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    batch_starts: tuple[int, ...] = ()
    change_column: str | None = None
    missing_columns: MissingColumns | None = None
    number: int | None = None
    part: int | None = None

    @property
    def whole(self) -> bool:
        """True where the piece is all of the file."""
        return self.rows is None or self.rows == (0, self.file_rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InlinePiece:
    """Rows that came with a call, or are those of a Dataset's partition of the number `part`: `rows[0] <= row number <
    rows[1]` of what `read` has. `byte_count` is about their bytes.
    """

    read: RowReader
    schema: pa.Schema
    origin: str
    rows: tuple[int, int]
    row_count: int
    byte_count: int | None = None
    change_column: str | None = None
    missing_columns: MissingColumns | None = None
    part: int | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self.read(*self.rows)


Piece: TypeAlias = FilePiece | InlinePiece

"""Pieces: what of a split goes to one channel as a whole. Values only; `scan` and `fragment` read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from ...proto.values import MissingColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """What a file was when its split was accepted; another size or time later is an error, not another answer."""

    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Rows by the value of a column of the file's: `low <= value < high`, without a bound where that is None."""

    column: str
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilePiece:
    """Rows of one file: all of them, or `rows[0] <= row number < rows[1]`.

    `splits.expand` makes it from names and sizes alone: `rows` and `row_groups` are then what the split asked for.
    `splits.open_pieces` reads what the format tells without reading rows and cuts: `schema` is the file's own (as
    Arrow sees it), `file_rows` and `row_count` how many rows the file and this piece have, `file_groups` how many
    row groups (or record batches) the file, `byte_count` about how many bytes the piece takes, `row_bytes` about how
    many a row of the wanted columns takes in the row group where it takes most, `checksums` whether its pages have any,
    `never_null` the columns that are known
    to hold no null, `batch_starts` the first row of each record batch of an Arrow file. What the format does not tell
    stays None. `partition` holds the columns its Hive-style folders give, as strings. `origin` names the split for
    messages: source and sequence.
    `change_column` is what its split says of where a row's weight stands, `missing_columns` of columns that the file
    lacks.
    `key_bounds` are the least and greatest value of columns (by the file's name) that were asked for as keys and hold
    no null; of a piece with `keys` only the rows in that range are meant. Rows of a Dataset's partition have its number
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
    checksums: bool = False
    never_null: frozenset[str] = frozenset()
    key_bounds: tuple[tuple[str, int, int], ...] = ()
    keys: KeyRange | None = None
    partition: tuple[tuple[str, str | None], ...] = ()
    batch_starts: tuple[int, ...] = ()
    change_column: str | None = None
    missing_columns: MissingColumns | None = None
    part: int | None = None

    @property
    def whole(self) -> bool:
        """Whether this is all of the file."""
        return self.rows is None or self.rows == (0, self.file_rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InlinePiece:
    """Rows that are there: they came with the call, or are those of a Dataset's partition of the number `part`."""

    batches: tuple[pa.RecordBatch, ...]
    schema: pa.Schema
    origin: str
    row_count: int
    change_column: str | None = None
    missing_columns: MissingColumns | None = None
    part: int | None = None


Piece: TypeAlias = FilePiece | InlinePiece

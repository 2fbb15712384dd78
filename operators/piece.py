"""Pieces: what of a split goes to one channel as a whole. Values only; `scan` and `fragment` read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """What a file was when its split was accepted; another size or time later is an error, not another answer."""

    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilePiece:
    """Rows of one file: all of them, or `rows[0] <= row number < rows[1]`.

    `schema` is the file's own (as Arrow sees it), `row_count` how many rows this piece has where the format tells
    without reading. `partition` holds the columns its Hive-style folders give, as strings. `origin` names the split
    for messages: source and sequence.
    """

    path: str
    format: str
    version: FileVersion
    origin: str
    schema: pa.Schema | None = None
    rows: tuple[int, int] | None = None
    row_count: int | None = None
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InlinePiece:
    """Rows that came with the call. `batches` can be iterated any number of times."""

    batches: tuple[pa.RecordBatch, ...]
    schema: pa.Schema
    origin: str
    row_count: int


Piece: TypeAlias = FilePiece | InlinePiece

"""Verification of the checksums of all Parquet data that a statement has read, because DuckDB does not verify them.

The check runs when the statement has ended, and before its epoch ends: rows are final at their barrier. A statement
that has read only some of the row groups, because a LIMIT was reached or a filter skipped some, does not say which
ones; then nothing is verified. Each version of a file is verified once for the same columns and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...proto.arrow.thrift import Damaged
from ...proto.errors import SplitError
from ..core.column import Column
from ..core.piece import FilePiece
from .file_reads import FileReads, whole
from .file_relations import contiguous
from .file_versions import HeldFiles
from .formats.matching import Names, describe
from .formats.parquet_pages import check_pages, verified

#: The share of all rows that counts as all of them: a profile's rows assume that all row groups of a file are equally
#: large.
_NEARLY_ALL = 0.95


def check_read(
    pieces: Iterable[FilePiece], columns: Iterable[Column], held: HeldFiles, look: Callable[[], None]
) -> None:
    """Raise `SplitError` for a page with a wrong checksum. `look` is called between chunks."""
    columns = tuple(columns)
    for piece in contiguous([piece for piece in pieces if piece.checksums]):
        names = Names(() if piece.schema is None else piece.schema.names)
        positions = (names.position(column.name) for column in columns)
        wanted = tuple(sorted({names.all[position] for position in positions if position is not None}))
        key = piece.path, held.identities[piece.path], wanted, piece.rows
        if key in verified:
            continue
        try:
            check_pages(held.paths[piece.path], wanted, piece.rows, look)
        except (Damaged, OSError) as error:
            raise SplitError(
                f"{describe(piece)} cannot be read as {piece.format}: {error}", reason="FILE_UNREADABLE"
            ) from error
        verified.add(key)


def is_nearly_all(reads: FileReads, pieces: Iterable[FilePiece]) -> bool:
    """True where nearly all row groups were read."""
    return reads.rows >= whole(tuple(pieces)).rows * _NEARLY_ALL

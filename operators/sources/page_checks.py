"""Verification of the checksums of all Parquet data that a statement has read, because DuckDB does not verify them.

The check runs when the statement has ended, and before its epoch ends: rows are final at their barrier. Each version of
a file is verified once for the same columns and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...proto.arrow.parquet_footer import Chunk
from ...proto.arrow.thrift import Damaged
from ...proto.errors import SplitError
from ..core.column import Column
from ..core.piece import FilePiece
from .byte_ranges import ByteRanges
from .file_relations import contiguous
from .file_versions import HeldFiles
from .formats.matching import Names, describe
from .formats.parquet_pages import check_pages, verified


def check_read(
    pieces: Iterable[FilePiece],
    columns: Iterable[Column],
    held: HeldFiles,
    look: Callable[[], None],
    reads: Mapping[str, ByteRanges] | None = None,
) -> None:
    """Raise `SplitError` for a page with a wrong checksum. `look` is called between chunks. `reads` are the bytes that
    were read of each file, by the path by which it is held; without it the pieces count as read.
    """
    columns = tuple(columns)
    for piece in contiguous([piece for piece in pieces if piece.checksums]):
        names = Names(() if piece.schema is None else piece.schema.names)
        positions = (names.position(column.name) for column in columns)
        wanted = tuple(sorted({names.all[position] for position in positions if position is not None}))
        version = piece.path, held.identities[piece.path]
        key = *version, wanted, piece.rows
        if key in verified:
            continue

        def known(chunk: Chunk, version: tuple[object, ...] = version) -> bool:
            return (*version, chunk.start) in verified

        path = held.paths[piece.path]
        try:
            sound = check_pages(path, wanted, piece.rows, look, None if reads is None else reads[path], known)
        except (Damaged, OSError) as error:
            raise SplitError(
                f"{describe(piece)} cannot be read as {piece.format}: {error}", reason="FILE_UNREADABLE"
            ) from error
        if sound is None:
            verified.add(key)
        for chunk in sound or ():
            verified.add((*version, chunk.start))

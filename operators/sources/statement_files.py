"""The files that a statement reads: their pieces in this epoch, held open while it runs, and what was read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import duckdb
import pyarrow as pa

from ...proto.errors import InternalError, SplitError
from ..core.piece import FilePiece, Piece
from . import file_reads
from .byte_ranges import ByteRanges
from .file_reads import FileReads
from .file_relations import FileSource
from .file_versions import HeldFiles
from .page_checks import check_read
from .read_log import ReadLog
from .scan import Scan


class StatementFiles:
    """The pieces of each of `sources`, which are given by `assign`. `open` holds their files, until `close`."""

    def __init__(self, sources: Sequence[FileSource], plan_path: str) -> None:
        self.sources = tuple(sources)
        self.pieces: dict[str, tuple[FilePiece, ...]] = {source.relation: () for source in sources}
        """The pieces of each relation."""
        self._plan_path = plan_path
        self._held = HeldFiles(())
        self._counted = False
        self._log: ReadLog | None = None

    def assign(self, source: str, pieces: Sequence[Piece]) -> None:
        """Set the pieces of a source."""
        relations = [file.relation for file in self.sources if file.source == source]
        if not relations:
            raise InternalError(f"{self._plan_path}: the fragment does not read {source!r}")
        for relation in relations:
            self.assign_to(relation, pieces)

    def assign_to(self, relation: str, pieces: Sequence[Piece]) -> None:
        """Set the pieces of one of several relations over the same source."""
        files = tuple(piece for piece in pieces if isinstance(piece, FilePiece))
        if len(files) != len(pieces):
            raise InternalError(f"{self._plan_path}: {relation!r} has pieces that are not files")
        self.pieces[relation] = files

    @property
    def all_pieces(self) -> list[FilePiece]:
        return [piece for pieces in self.pieces.values() for piece in pieces]

    @property
    def paths(self) -> Mapping[str, str]:
        """The names by which the statement opens the files that are held."""
        return self._held.paths

    def named(self, text: str) -> str:
        """The text with the files' own names."""
        return self._held.named(text)

    def open(self, log: ReadLog) -> bool:
        """Hold the files of all pieces; True if what is read of them is worth counting. Then `log` tells which pages
        are read, where pages have checksums.
        """
        pieces = self.all_pieces
        self._counted = file_reads.worth_counting(pieces)
        self._held = HeldFiles(pieces)
        if self._counted and any(piece.checksums for piece in pieces):
            log.begin()
            self._log = log
        return self._counted

    def check(self, look: Callable[[], None]) -> None:
        """Raise if a page that was read differs from its checksum, or if a file has changed."""
        reads = self._end_log()
        if reads is not None or not self._counted:
            for file in self.sources:
                check_read(self.pieces[file.relation], file.columns, self._held, look, reads)
        self._held.check()

    def reads(self, profile: str | None, given_out: int) -> FileReads:
        """The reads by a statement with this profile, if it has one, which gave out so many rows."""
        pieces = self.all_pieces
        if not pieces:
            return file_reads.NOTHING
        if profile is not None:
            return file_reads.profiled(profile, pieces, self._held.paths)
        columns = min(len(file.columns) for file in self.sources)
        return file_reads.stopped(pieces, given_out, columns) if self._counted else file_reads.whole(pieces)

    def close(self) -> None:
        with suppress(duckdb.Error):  # where DuckDB has failed, its log fails, too
            self._end_log()
        self._held.close()

    def _end_log(self) -> dict[str, ByteRanges] | None:
        """The bytes that were read of each held file; None where they were not logged."""
        log, self._log = self._log, None
        return None if log is None else log.end(self._held.paths.values())

    def size(self, row_bytes: Callable[[Iterable[pa.DataType]], int]) -> int:
        """About the bytes of all files' rows in memory, rather too many, where a row of these types has `row_bytes`."""
        total = 0
        for file in self.sources:
            width = row_bytes([column.type for column in file.columns])
            total += sum(max((p.row_count or 0) * width, p.byte_count or 0) for p in self.pieces[file.relation])
        return total

    @property
    def row_bytes(self) -> int:
        """About the bytes of a row that consists of one row of every file."""
        total = 0
        for pieces in self.pieces.values():
            rows = sum(piece.row_count or 0 for piece in pieces)
            total += sum(piece.byte_count or 0 for piece in pieces) // max(rows, 1)
        return total

    @property
    def widest_bytes(self) -> int:
        """The bytes of the largest row of every file, together."""
        return sum(max((p.row_bytes or 0 for p in pieces), default=0) for pieces in self.pieces.values())

    def bad_file(self, look: Callable[[], None]) -> SplitError | None:
        """Read the files by the slow way, whose error names the file and the fault."""
        for file in self.sources:
            scan = Scan(file.source, file.columns)
            scan.assign(file.source, self.pieces[file.relation])
            try:
                for _ in scan.run(()):
                    look()
            except SplitError as error:
                return error
        return None

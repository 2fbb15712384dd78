"""Arrow IPC, as a file (with a footer: pieces are runs of record batches) or as a stream (one piece)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa

from ...proto.errors import SplitError
from ...proto.validation import each_validated, validated, validated_schema
from ..column import Column
from ..file_versions import Files
from ..piece import FilePiece
from .arrow_footer import batch_rows
from .format import numbered
from .ranges import cut, within

_MAGIC = b"ARROW1"


class Arrow:
    name = "arrow"
    endings = (".arrow", ".arrows", ".ipc", ".feather")
    ranges = True
    compressed = False

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:  # noqa: ARG002
        reader = ArrowReader(piece, filesystem)
        try:
            known = replace(piece, schema=reader.schema)
            if not reader.footed:
                return (_stream_piece(known),)
            counts = list(reader.counts())
            return cut(replace(known, batch_starts=_starts(counts)), counts)
        finally:
            reader.close()

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> ArrowReader:  # noqa: ARG002
        return ArrowReader(piece, filesystem)


class Inline:
    """Rows that came with a call and were too many for a message or for memory.

    One piece, whatever batches they came in, of a known number of rows: it counts, and may be cut, like other inline
    rows.
    """

    name = "inline"
    endings = ()
    ranges = False
    compressed = False

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:  # noqa: ARG002
        reader = ArrowReader(piece, filesystem)
        try:
            counts = list(reader.counts())
            rows = sum(counts)
            known = replace(piece, schema=reader.schema, batch_starts=_starts(counts))
            return (replace(known, rows=(0, rows), row_count=rows, file_rows=rows),)
        finally:
            reader.close()

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> ArrowReader:  # noqa: ARG002
        return ArrowReader(piece, filesystem)


def _starts(counts: Sequence[int]) -> tuple[int, ...]:
    """The number of each record batch's first row."""
    return tuple(accumulate(counts[:-1], initial=0)) if counts else ()


def _stream_piece(piece: FilePiece) -> FilePiece:
    if piece.rows is not None or piece.row_groups is not None:
        raise SplitError(
            f"{piece.path} ({piece.origin}) is an Arrow stream, which has no index: it can only be read as a whole",
            reason="NO_RANGES",
        )
    return piece


class ArrowReader:
    def __init__(self, piece: FilePiece, filesystem: Files) -> None:
        self._piece = piece
        self._file = filesystem.open_input_file(piece.path)
        try:
            self.footed = self._file.read_at(len(_MAGIC), 0) == _MAGIC
            self.schema = validated_schema(self._open(None).schema.remove_metadata())
        except BaseException:
            self._file.close()
            raise

    def _open(self, indices: Sequence[int] | None) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=None if indices is None else list(indices))
        self._file.seek(0)
        if self.footed:
            return pa.ipc.open_file(self._file, options=options)
        return pa.ipc.open_stream(self._file, options=options)

    def counts(self) -> Iterator[int]:
        """How many rows each record batch has; of a file with a footer no batch is read for it."""
        if self.footed:
            yield from batch_rows(self._file)
        else:
            yield from (batch.num_rows for batch in self._open([0] if len(self.schema) else None))

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        # Arrow takes no column to mean all: then the first gives the rows.
        reader = self._open(sorted(set(indices)) or ([0] if len(self.schema) else None))
        places = {index: place for place, index in enumerate(sorted(set(indices)))}
        order = [places[index] for index in indices]
        end = self._piece.rows[1] if self._piece.rows is not None else 1 << 62
        start = self._piece.rows[0] if self._piece.rows is not None else 0
        number, row = self._begin(start)
        for first, batch in within(self._from(reader, number), row, (start, end)):
            yield from numbered(first, batch.select(order))

    def _begin(self, row: int) -> tuple[int, int]:
        """The record batch to begin with, and its first row: the one with this row, where that is known."""
        starts = self._piece.batch_starts if self.footed else ()
        number = max(bisect_right(starts, row) - 1, 0)
        return number, starts[number] if starts else 0

    def _from(
        self, reader: pa.RecordBatchFileReader | pa.RecordBatchStreamReader, number: int
    ) -> Iterator[pa.RecordBatch]:
        """The record batches from this one on; of a stream, which has no index, it is the first."""
        if not self.footed:
            yield from each_validated(reader)
            return
        for at in range(number, reader.num_record_batches):
            yield validated(reader.get_batch(at))

    def close(self) -> None:
        self._file.close()

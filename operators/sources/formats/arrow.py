"""Arrow IPC, as a file (with a footer: pieces are runs of record batches) or as a stream (one piece).

A large record batch is read in parts, unless it is compressed or has a type whose values lie elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, repeat

import pyarrow as pa

from ....proto.arrow.validation import each_validated, validated_schema
from ....proto.errors import SplitError
from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import Files
from .arrow_messages import Message, batch_rows, of_file, of_stream
from .arrow_parts import LARGE, LargeBatch, can_be_parted
from .format import numbered
from .row_ranges import cut, within

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
    """The format of rows that came with a call and were too many for a message or for memory.

    Such rows are one piece of a known number of rows, whatever batches they came in. The piece counts, and may be cut,
    like other inline rows.
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
    """The row number of each record batch's first row."""
    return tuple(accumulate(counts[:-1], initial=0)) if counts else ()


def _stream_piece(piece: FilePiece) -> FilePiece:
    if piece.rows is not None or piece.row_groups is not None:
        raise SplitError(
            f"{piece.path} ({piece.origin}) is an Arrow stream, which has no index: leave rows and row groups out, "
            "and read the whole file",
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
        """The number of rows of each record batch. For a file with a footer no batch is read."""
        if self.footed:
            yield from batch_rows(self._file)
        else:
            yield from (batch.num_rows for batch in self._open([0] if len(self.schema) else None))

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        # Arrow takes an empty list of columns for all columns, so the first column is read for its rows.
        wanted = sorted(set(indices)) or ([0] if len(self.schema) else None)
        positions = {index: position for position, index in enumerate(sorted(set(indices)))}
        order = [positions[index] for index in indices]
        end = self._piece.rows[1] if self._piece.rows is not None else 1 << 62
        start = self._piece.rows[0] if self._piece.rows is not None else 0
        number, row = self._begin(start)
        for first, batch in within(each_validated(self._from(wanted, number)), row, (start, end)):
            yield from numbered(first, batch.select(order))

    def _begin(self, row: int) -> tuple[int, int]:
        """The record batch to begin with, and its first row: the batch that has this row, where the batches' rows are
        known.
        """
        starts = self._piece.batch_starts if self.footed else ()
        number = max(bisect_right(starts, row) - 1, 0)
        return number, starts[number] if starts else 0

    def _from(self, indices: Sequence[int] | None, number: int) -> Iterator[pa.RecordBatch]:
        """The record batches from this one on, large ones in parts. A stream has no index, so its batches come from the
        first one on.
        """
        parted = bool(indices) and self._file.size() > LARGE and all(map(can_be_parted, self.schema.types))
        if self.footed:
            reader = self._open(indices)
            known = of_file(self._file, number) if parted else repeat(None)
            for at, message in zip(range(number, reader.num_record_batches), known, strict=False):
                if message is not None and _is_large(message):
                    yield from self._parts(message, indices)
                else:
                    yield reader.get_batch(at)
            return
        messages = list(of_stream(self._file)) if parted else []
        if any(map(_is_large, messages)) and all(one.is_plain for one in messages):
            for message in messages:
                yield from self._parts(message, indices)
        else:
            yield from self._open(indices)  # opened last: a stream's reader goes on from where the file stands

    def _parts(self, message: Message, indices: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        return LargeBatch(self._file, message, self.schema, indices or ()).parts()

    def close(self) -> None:
        self._file.close()


def _is_large(message: Message) -> bool:
    return message.is_plain and message.body_length > LARGE

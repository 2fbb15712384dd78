"""Arrow IPC, as a file (with a footer: pieces are runs of record batches) or as a stream (one piece).

A large record batch is read in parts (`ipc`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Final

import pyarrow as pa

from ....proto.arrow.validation import validated, validated_schema
from ....proto.errors import SplitError
from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import UNLIMITED, Files, PieceFiles
from .format import OpenedAnew, numbered, part_too_large
from .ipc.arrow_columns import NO_DICTIONARY, can_be_parted, has_dictionary, ids_of
from .ipc.arrow_messages import (
    OTHER_CODEC,
    Message,
    dictionaries_of_file,
    of_file,
    of_stream,
    schema_of_file,
    schema_of_stream,
)
from .ipc.arrow_parts import LARGE, HeldDictionaries, LargeBatch, decoded_bytes
from .row_ranges import cut

_MAGIC: Final = b"ARROW1"
_ALL: Final = 1 << 62
#: Decoding a compressed batch as a whole is faster, and may take this share of what a row may have, up to a bound.
_SHARE: Final = 16
_MOST_AT_ONCE: Final = 128 << 20


class Arrow(OpenedAnew):
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

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> ArrowReader:  # noqa: ARG002
        return ArrowReader(piece, filesystem, filesystem.largest)


class Inline(OpenedAnew):
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

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> ArrowReader:  # noqa: ARG002
        return ArrowReader(piece, filesystem, filesystem.largest)


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches, each with the number of its first row."""
    row = 0
    for batch in batches:
        yield row, batch
        row += batch.num_rows


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
    """A reader of a file, of which no row may have more bytes than `largest`."""

    def __init__(self, piece: FilePiece, filesystem: Files, largest: int = UNLIMITED) -> None:
        self._piece = piece
        self._largest = largest
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
        """The number of rows of each record batch. No batch is read."""
        return (message.rows for message in self._messages())

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        # Arrow takes an empty list of columns for all columns, so the first column is read for its rows.
        wanted = sorted(set(indices)) or ([0] if len(self.schema) else [])
        positions = {index: position for position, index in enumerate(sorted(set(indices)))}
        order = [positions[index] for index in indices]
        start, end = self._piece.rows or (0, _ALL)
        for first, batch in self._from(wanted, start, end):
            validated(batch)
            low, high = max(start, first), min(end, first + batch.num_rows)
            if low < high:
                yield from numbered(low, batch.slice(low - first, high - low).select(order))

    def _from(self, wanted: Sequence[int], start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The record batches with these rows, each with the number of its first row, large ones in parts. A stream has
        no index, so its batches come from the first one on.
        """
        if self.footed:
            return self._of_file(wanted, start, end)
        if self._divides_stream(wanted):
            return self._of_divided_stream(wanted, start, end)
        return _counted(self._open(wanted or None))  # opened last: the reader goes on from where the file stands

    def _of_file(self, wanted: Sequence[int], start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        reader = self._open(wanted or None)
        held = self._no_dictionaries(wanted)
        dictionaries = list(dictionaries_of_file(self._file)) if self._has_dictionaries else []
        dictionary_bytes = sum(decoded_bytes(self._file, message) for message in dictionaries)
        number, row = self._begin(start)
        for at, message in enumerate(of_file(self._file, number), number):
            if row >= end:
                return
            if self._is_divided(message, wanted, dictionary_bytes):
                while dictionaries:
                    held.read(self._file, dictionaries.pop(0), self._largest)
                yield from self._parts(message, wanted, held, (row, start, end))
            else:
                yield row, reader.get_batch(at)
            row += message.rows

    def _of_divided_stream(self, wanted: Sequence[int], start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        held, row = self._no_dictionaries(wanted), 0
        for message in of_stream(self._file):
            if message.dictionary is not None:
                held.read(self._file, message, self._largest)
            elif row < end:
                yield from self._parts(message, wanted, held, (row, start, end))
                row += message.rows

    def _divides_stream(self, wanted: Sequence[int]) -> bool:
        """True where a part of a stream is too large to be read as a whole."""
        sizes: dict[int, int] = {}
        most = 0
        is_divided = False
        for message in of_stream(self._file):
            if message.dictionary is not None:
                before = sizes.get(message.dictionary, 0) if message.is_delta else 0
                sizes[message.dictionary] = before + decoded_bytes(self._file, message)
                most = max(most, sum(sizes.values()))
            else:
                is_divided = self._is_divided(message, wanted, most) or is_divided
        return is_divided

    def _is_divided(self, message: Message, wanted: Sequence[int], dictionary_bytes: int) -> bool:
        """True where a batch is read in parts. Raises `PartTooLarge` where it must be, and cannot be."""
        if dictionary_bytes <= self._largest and not self._is_large(message):
            return False
        readable = message.is_little and message.codec != OTHER_CODEC
        if readable and wanted and all(can_be_parted(self.schema.field(index).type) for index in wanted):
            return True
        if dictionary_bytes > self._largest:
            what = "the dictionaries of a record batch"
            raise part_too_large(what, dictionary_bytes, self._largest, "smaller dictionaries, or plain columns")
        size = LargeBatch(self._file, message, self.schema, wanted, self._no_dictionaries(wanted)).size()
        if max(size, 0 if self.footed else message.body_length) > self._largest:
            what = "a record batch with views, unions, run ends or big-endian numbers"
            raise part_too_large(what, size, self._largest, "smaller record batches")
        return False

    def _is_large(self, message: Message) -> bool:
        if message.codec is None and message.body_length <= LARGE:
            return False
        most = LARGE if message.codec is None else max(LARGE, min(self._largest // _SHARE, _MOST_AT_ONCE))
        return decoded_bytes(self._file, message) > most

    def _parts(
        self, message: Message, wanted: Sequence[int], held: HeldDictionaries, rows: tuple[int, int, int]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The wanted rows of a batch: its first row in the file, the first wanted row, and the end."""
        first, start, end = rows
        at = max(start, first)
        for batch in LargeBatch(self._file, message, self.schema, wanted, held).parts(
            self._largest, at - first, max(end - first, 0)
        ):
            yield at, batch
            at += batch.num_rows

    def _begin(self, row: int) -> tuple[int, int]:
        """The record batch to begin with, and its first row: the batch that has this row, where the batches' rows are
        known.
        """
        starts = self._piece.batch_starts if self.footed else ()
        number = max(bisect_right(starts, row) - 1, 0)
        return number, starts[number] if starts else 0

    def _messages(self) -> Iterator[Message]:
        """The messages of all record batches."""
        if self.footed:
            return of_file(self._file)
        return (message for message in of_stream(self._file) if message.dictionary is None)

    @cached_property
    def _has_dictionaries(self) -> bool:
        return any(map(has_dictionary, self.schema.types))

    def _no_dictionaries(self, wanted: Sequence[int]) -> HeldDictionaries:
        """No dictionary yet, of those that the wanted columns have."""
        if not self._has_dictionaries:
            return HeldDictionaries((NO_DICTIONARY,) * len(self.schema), {})
        ids = ids_of(*(schema_of_file if self.footed else schema_of_stream)(self._file))
        types = (ids[index].types(self.schema.field(index).type) for index in wanted)
        return HeldDictionaries(ids, {number: type_ for pairs in types for number, type_ in pairs})

    def close(self) -> None:
        self._file.close()

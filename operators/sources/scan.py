"""Scan: one source's pieces as Arrow, in order, in the plan's columns and types.

Order: pieces as they were assigned, rows as in the file. Nulls: a null in a required column is an error. A column that
a piece lacks is an error, too, unless its split says that it is null. Empty input: no batch. Memory: some MiB of the
wanted columns' rows, and the pages and dictionaries that they are in; what takes more than a row may have is an error.
Barrier: nothing is kept. Large files are read ahead, by some MiB. Closing the output closes the files that are being
read, and no other file is opened.

Where the plan declares an order for the source, a row that is out of order is an error; rows that are not read are not
checked. A piece with a range of keys is sorted by them: the scan gives the rows in the range, and checks all rows of
their row groups.

With a change column the weight of each row stands behind its columns, as `_weight`.

A file that does not tell its number of rows (text) is counted in bytes, as it is read.

A bad piece raises a `SplitError` that names the file and, where a value is wrong, its column and row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain, groupby, repeat
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds
from pyarrow.fs import FileSystem, LocalFileSystem

from ...proto.errors import InternalError, SplitError, TidegateError
from ...proto.values import MissingColumns
from ..arrays.casts import LossyCast, cast
from ..arrays.ordering import Order
from ..arrays.retype import requires
from ..core.batches import batch_of
from ..core.column import Column
from ..core.interrupts import interrupted
from ..core.operator import Operator, Stream
from ..core.piece import FilePiece, InlinePiece, KeyRange, Piece
from ..core.sizes import batch_bytes, is_encoded, row_beyond
from ..core.wide_rows import PassingRows
from .change_column import WEIGHT_FIELD, BadChange, weights
from .declared_order import DeclaredOrder, Ends
from .file_relations import contiguous
from .file_versions import UNLIMITED, OpenFile, PieceFiles
from .files_ahead import FilesAhead
from .formats import format_named
from .formats.csv import Csv
from .formats.format import TooLarge, numbered
from .formats.matching import (
    FromFile,
    FromFolder,
    Match,
    RowNumber,
    describe,
    match_change_column,
    match_columns,
    null_in_required,
)

_WORTH_BYTES: Final = 8 << 20
"""Files with fewer bytes to read are decoded sooner than a thread begins to."""
_FREED_BYTES: Final = 32 << 20
_FREED_SHARE: Final = 16
_MOST_FREED: Final = 512 << 20
"""Freed memory of wide rows goes back to the system after one part in so many of the task's, within these bounds."""
_DAYS_BITS: Final = 32
_WIDEST: Final = 256 << 10
"""Wider rows are not read ahead, because a batch of one row may be as large as the task's memory."""

T = TypeVar("T")


class _Scanned(NamedTuple):
    """Rows of a piece, with their ends where the plan declares an order. If they are `last`, the piece has no other."""

    rows: pa.RecordBatch
    ends: Ends | None
    last: bool = False


class _Matched(NamedTuple):
    """The columns of rows of this schema as the plan's: most splits of a source are alike. `indices` are those that are
    read, some of which may be `encoded`. `as_asked` says that all columns are the plan's as they are.
    """

    schema: pa.Schema
    missing_columns: MissingColumns | None
    matches: Sequence[Match]
    indices: Sequence[int]
    encoded: bool
    as_asked: bool

    def fits(self, schema: pa.Schema, piece: Piece) -> bool:
        """True for rows of a piece that are matched alike. What is not in the rows may be in the name of a file."""
        are_all_there = len(self.indices) == len(self.matches) or isinstance(piece, InlinePiece)
        return are_all_there and self.missing_columns is piece.missing_columns and self.schema == schema


class TextBytes(Protocol):
    """The counter of the bytes of text files that were read."""

    text_bytes: int


class Scan(Operator):
    """The scan of one source. A row of more than `largest` bytes is an error. Bytes of text files count in `counts`.
    Large files are read ahead as `read_ahead` says.
    """

    def __init__(
        self,
        source: str,
        columns: Sequence[Column],
        *,
        order: Sequence[Order] = (),
        change_column: str | None = None,
        filesystem: FileSystem | None = None,
        largest: int = UNLIMITED,
        counts: TextBytes | None = None,
        read_ahead: FilesAhead | None = None,
    ) -> None:
        self.schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in columns])
        self._asked = tuple(columns)
        if change_column is not None:
            self.schema = self.schema.append(WEIGHT_FIELD)
            self._asked += (Column(name=change_column, type=pa.string(), nullable=False, number_or_text=True),)
        self._change_column = change_column
        self._largest = largest
        self._counts = counts
        self._read_ahead = read_ahead
        self._source = source
        self._columns = tuple(columns)
        self._order = DeclaredOrder(source, self.schema, order) if order else None
        # Not mapped into memory: a file that is cut short while it is mapped kills the process.
        self._filesystem = filesystem or LocalFileSystem(use_mmap=False)
        self._pieces: tuple[Piece, ...] = ()
        self._matched: _Matched | None = None
        self._takes_all = not order and change_column is None and _any_rows(self.schema)

    def assign(self, source: str, pieces: Sequence[Piece]) -> None:
        """Set the pieces of the source in the next epoch."""
        if source != self._source:
            raise InternalError(f"the scan of {self._source!r} does not read {source!r}")
        self._pieces = tuple(pieces)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if inputs:
            raise InternalError(f"the scan of {self._source!r} takes no input")
        self._interrupted = False
        return self._run()

    def _run(self) -> Iterator[pa.RecordBatch]:
        if self._order is not None:
            self._order.begin()
        passing = PassingRows(min(max(_FREED_BYTES, self._largest // _FREED_SHARE), _MOST_FREED))
        pieces = _runs([piece for piece in self._pieces if _may_have_rows(piece)])
        for ahead, of_kind in groupby(pieces, self._ahead_of):
            parts = map(self._of_piece, of_kind)
            read = chain.from_iterable(parts) if ahead is None else ahead.read(parts, _scanned_bytes, _is_last)
            for rows, ends, _ in read:
                if self._order is not None and ends is not None:
                    self._order.follow(ends)
                if rows.num_rows:
                    passing.add(rows)
                    yield rows

    def _ahead_of(self, piece: Piece) -> FilesAhead | None:
        """The room to read a piece ahead; None where it is read as its rows are asked for."""
        ahead = self._read_ahead
        return ahead if ahead is not None and isinstance(piece, FilePiece) and _is_worth(piece, ahead) else None

    def _of_piece(self, piece: Piece) -> Generator[_Scanned]:
        first = 0
        with closing(self._inline(piece) if isinstance(piece, InlinePiece) else self._file(piece)) as parts:
            for scanned in parts:
                self._check_size(scanned.rows, piece, first)
                first += scanned.rows.num_rows
                if self._interrupted:
                    raise interrupted(f"reading {describe(piece)}")
                yield scanned._replace(last=True) if first == piece.row_count else scanned

    def _check_size(self, batch: pa.RecordBatch, piece: Piece, first: int) -> None:
        too_large = row_beyond(batch, self._largest)
        if too_large is not None:
            row, size = too_large
            raise SplitError(
                f"{describe(piece)}: row {first + row} (counted from 0 in the rows read) has {size:,} bytes, more "
                f"than the task's memory_limit of {self._largest:,}: raise memory_limit",
                reason="ROW_TOO_LARGE",
            )

    def _inline(self, piece: InlinePiece) -> Generator[_Scanned]:
        if self._takes_all and piece.schema.equals(self.schema, check_metadata=True):
            yield from map(_Scanned, piece.batches(), repeat(None))
            return
        known = self._matched_to(piece.schema, piece)
        matches, indices, encoded = known.matches, known.indices, known.encoded
        at = 0
        for batch in piece.batches():
            selected = batch.select(indices)
            for first, part in numbered(at, selected) if encoded else ((at, selected),):
                if part.num_rows:
                    yield self._ended(self._wanted(part, matches, piece, first), piece, first)
            at += batch.num_rows

    def _matched_to(self, schema: pa.Schema, piece: Piece) -> _Matched:
        known = self._matched
        if known is None or not known.fits(schema, piece):
            matches = self._matches(schema, piece)
            indices = [match.index for match in matches if isinstance(match, FromFile)]
            encoded = any(is_encoded(schema.field(index).type) for index in indices)
            as_asked = self._are_as_asked(matches)
            known = self._matched = _Matched(schema, piece.missing_columns, matches, indices, encoded, as_asked)
        return known

    def _file(self, piece: FilePiece) -> Generator[_Scanned]:
        with OpenFile(piece) as file:
            if piece.rows is not None and piece.rows[0] == piece.rows[1]:
                self._matches(piece.schema or pa.schema([]), piece)
                return
            files = PieceFiles(file, piece.path, self._filesystem, self._largest)
            text_bytes = 0
            reader = _guarded(piece, file, lambda: format_named(piece.format).read(piece, self._asked, files))
            with closing(reader):
                known = self._matched_to(reader.schema, piece)
                matches = known.matches
                convert = self._as_they_are if known.as_asked else self._wanted
                with closing(reader.batches(known.indices)) as batches:
                    while (numbered_batch := _guarded(piece, file, lambda: next(batches, None))) is not None:
                        at, batch = numbered_batch
                        text_bytes = self._count(piece, text_bytes, files.position)
                        if batch.num_rows:
                            scanned = self._ended(convert(batch, matches, piece, at), piece, at)
                            yield scanned if piece.keys is None else _in_range(scanned, batch, piece.keys)
            file.check()
            self._count(piece, text_bytes, piece.version.size)

    def _count(self, piece: FilePiece, before: int, position: int) -> int:
        """Count the bytes of a text file up to this position; those up to `before` are counted."""
        if self._counts is not None and piece.row_count is None:
            self._counts.text_bytes += position - before
        return position

    def _wanted(self, batch: pa.RecordBatch, matches: Sequence[Match], piece: Piece, first_row: int) -> pa.RecordBatch:
        """`batch`, which has the matched columns in order, as the plan's columns and types."""
        remaining = iter(batch.columns)
        arrays = []
        for column, match in zip(self._columns, matches, strict=False):
            match match:
                case FromFile():
                    array = self._cast(next(remaining), column, piece, first_row)
                case FromFolder(value=value):
                    array = pa.repeat(value, batch.num_rows)
                case RowNumber():
                    array = pa.array(np.arange(first_row, first_row + batch.num_rows))
                case _:
                    array = pa.nulls(batch.num_rows, column.type)
            if not column.nullable and array.null_count:
                raise null_in_required(column, describe(piece), first_row + _first_null(array))
            arrays.append(array)
        if self._change_column is not None:
            arrays.append(self._weights(next(remaining), piece, first_row))
        return batch_of(arrays, batch.num_rows, self.schema)

    def _are_as_asked(self, matches: Sequence[Match]) -> bool:
        """True where all columns are the file's, with the types that the plan asks for, and no value can be wrong."""
        return self._takes_all and all(
            isinstance(match, FromFile) and match.type.equals(column.type)
            for column, match in zip(self._columns, matches, strict=True)
        )

    def _as_they_are(
        self, batch: pa.RecordBatch, _matches: Sequence[Match], _piece: Piece, _first_row: int
    ) -> pa.RecordBatch:
        return batch_of(batch.columns, batch.num_rows, self.schema)

    def _ended(self, rows: pa.RecordBatch, piece: Piece, first_row: int) -> _Scanned:
        return _Scanned(rows, None if self._order is None else self._order.ends(rows, piece, first_row))

    def _matches(self, schema: pa.Schema, piece: Piece) -> tuple[Match, ...]:
        """The source of each column's values, the change column's last."""
        matches = match_columns(self._columns, schema, piece)
        if self._change_column is None:
            return matches
        return (*matches, match_change_column(self._change_column, schema, piece))

    def _weights(self, array: pa.Array, piece: Piece, first_row: int) -> pa.Array:
        if array.type.equals(WEIGHT_FIELD.type) and not array.null_count:
            return array
        text = isinstance(piece, FilePiece) and piece.format == Csv.name
        try:
            return pa.array(weights(array, digits=text))
        except BadChange as error:
            row = f"row {first_row + error.row} (counted from 0)"
            raise SplitError(
                f"{describe(piece)}: change column {self._change_column!r}, {row}: the value {error}",
                reason="CHANGE_VALUE",
            ) from error

    def _cast(self, array: pa.Array, column: Column, piece: Piece, first_row: int) -> pa.Array:
        try:
            cast_array = cast(array, column.type)
            if kinds.is_interval(column.type):
                _no_nanoseconds(cast_array)
        except LossyCast as error:
            where = f"column {column.name!r}, row {first_row + error.row} (counted from 0)"
            raise SplitError(f"{describe(piece)}: {where}: {error}", reason="COLUMN_VALUE") from error
        return cast_array


def _any_rows(schema: pa.Schema) -> bool:
    """True where rows of this schema cannot be wrong."""
    may_be_wrong = any(not field.nullable or kinds.is_interval(field.type) or requires(field.type) for field in schema)
    return not may_be_wrong and len(set(schema.names)) == len(schema)


def _runs(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The pieces, with neighbours in one file joined, so that the file is opened once."""
    files: list[FilePiece] = []
    for piece in pieces:
        if isinstance(piece, FilePiece):
            files.append(piece)
            continue
        yield from contiguous(files)
        files.clear()
        yield piece
    yield from contiguous(files)


def _scanned_bytes(scanned: _Scanned) -> int:
    return batch_bytes(scanned.rows)


def _is_last(scanned: _Scanned) -> bool:
    return scanned.last


def _is_worth(piece: FilePiece, ahead: FilesAhead) -> bool:
    """True for large files whose footer says that some batches and pages of it fit into the room."""
    return (
        piece.row_bytes is not None
        and piece.row_bytes <= _WIDEST
        and (piece.part_bytes or 0) <= ahead.most
        and (piece.byte_count or 0) >= _WORTH_BYTES
    )


def _may_have_rows(piece: Piece) -> bool:
    """True where, by the piece's footer, any of its rows may be in the wanted range."""
    if not isinstance(piece, FilePiece) or piece.keys is None:
        return True
    keys = piece.keys
    [(least, most)] = [(least, most) for name, least, most in piece.key_bounds if name == keys.column]
    return (keys.low is None or most >= keys.low) and (keys.high is None or least < keys.high)


def _in_range(scanned: _Scanned, batch: pa.RecordBatch, keys: KeyRange) -> _Scanned:
    """The rows of `scanned` whose keys, in the file's `batch`, are in the range. Keys of rows with a declared order
    have been checked to rise.
    """
    column = batch.column(keys.column)
    if kinds.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == _DAYS_BITS else pa.int64())
    values = column.to_numpy(zero_copy_only=False)  # a bound may be beyond what its type can hold
    if scanned.ends is None:
        wanted = np.ones(len(values), np.bool_) if keys.low is None else values >= keys.low
        wanted = wanted if keys.high is None else wanted & (values < keys.high)
        return scanned._replace(rows=scanned.rows.filter(pa.array(wanted)))
    start = 0 if keys.low is None else np.count_nonzero(values < keys.low)
    stop = batch.num_rows if keys.high is None else np.count_nonzero(values < keys.high)
    return scanned._replace(rows=scanned.rows.slice(start, stop - start))


def _guarded(piece: FilePiece, file: OpenFile, step: Callable[[], T]) -> T:
    """The result of `step`. A format's error about a bad file gets the file's name."""
    try:
        return step()
    except TidegateError:
        raise
    except TooLarge as error:
        raise SplitError(f"{describe(piece)}: {error}", reason=error.reason) from error
    except (pa.ArrowException, OSError, ValueError, KeyError, EOFError) as error:
        file.check()
        text = " ".join(str(error).split())
        raise SplitError(
            f"{describe(piece)} cannot be read as {piece.format}: {text}", reason="FILE_UNREADABLE"
        ) from error


def _first_null(array: pa.Array) -> int:
    return int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])


def _no_nanoseconds(array: pa.Array) -> None:
    """Refuse nanoseconds, which DuckDB would cut silently."""
    for row, value in enumerate(array):
        if value.is_valid and value.as_py().nanoseconds % 1_000:
            raise LossyCast(row, value, array.type)

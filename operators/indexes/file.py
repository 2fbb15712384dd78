"""Parquet files, looked up by DuckDB: a batch of keys is joined with the files in one statement.

Where the files have statistics, only the row groups between the least and the greatest key of a batch are read. So a
large look-up batch is cheaper than many small ones. The matches of a key come in the order of the files and of the rows
in them. A file that has changed since it was opened is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from ...proto.arrow.without_rows import empty_table, no_rows
from ...proto.errors import SplitError
from ..core.batches import batch_of
from ..core.column import Column
from ..core.interrupts import interrupted, look
from ..core.piece import FilePiece, Piece
from ..duckdb import failures
from ..duckdb.conform import Conform
from ..duckdb.duckdb_calls import Connection, batches_of
from ..duckdb.instances import Instance
from ..sources.file_relations import FileSource, define, native_obstacle
from ..sources.file_versions import HeldFiles
from ..sources.formats.matching import match_columns
from ..sources.page_checks import check_read
from .index import Index, Matches

_KEYS = "keys"
_FILES = "files"
#: Seconds until an interrupt is repeated. An interrupt just before a statement starts is lost.
_AGAIN = 0.05
_RETRYABLE = frozenset({"IO", "HTTP"})


class _Keys:
    """The keys of one look-up as DuckDB sees them: c0 is the row's number, then the keys."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        names = [f"c{i}" for i in range(len(types) + 1)]
        self.schema = pa.schema(list(zip(names, [pa.int64(), *types], strict=True)))
        self.rows = 1
        self._table = empty_table(self.schema)

    def set(self, keys: pa.RecordBatch) -> None:
        numbers = pa.array(range(keys.num_rows), pa.int64())
        self._table = pa.table([numbers, *keys.columns], schema=self.schema)
        self.rows = keys.num_rows

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        return (self._table if columns is None else self._table.select(list(columns))).to_reader()


@dataclass(frozen=True, slots=True, eq=False)
class _Session:
    """The connection that one look-up at a time uses."""

    connection: Connection
    keys: _Keys


class FileIndex(Index):
    """An index over opened pieces of Parquet files, all `native`. Look-ups run on connections of `instance`, one
    each.
    """

    lasting = False

    def __init__(
        self,
        name: str,
        pieces: Sequence[Piece],
        *,
        keys: Sequence[Column],
        columns: Sequence[Column],
        instance: Instance,
    ) -> None:
        self.name = name
        self.key_types = tuple(key.type for key in keys)
        self.schema = pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])
        read = (*keys, *columns)
        for piece in pieces:
            if isinstance(piece, FilePiece) and piece.schema is not None:
                match_columns(read, piece.schema, piece)
        obstacle = native_obstacle(pieces, read)
        if obstacle is not None:
            raise SplitError(f"index {name!r} cannot look up in files: {obstacle}", reason="UNSUPPORTED_INDEX")
        self._read = read
        self._pieces = tuple(piece for piece in pieces if isinstance(piece, FilePiece))
        self._held = HeldFiles(self._pieces)
        self._sql, self._values = _statement(read, len(keys), self._pieces, self._held.paths)
        self._instance = instance
        self._conform = Conform(self.schema.insert(0, pa.field("row", pa.int64())), f"index {name!r}")
        self._changed = threading.Condition()
        self._idle: list[_Session] = []
        self._busy: list[_Session] = []
        self._closed = False
        self._log = instance.read_log if any(piece.checksums for piece in self._pieces) else None
        self._checking = threading.Lock()
        self._damage: SplitError | None = None

    def lookup(self, keys: pa.RecordBatch) -> Matches:
        try:
            self._held.check()
            with self._session() as session, self._checked():
                session.keys.set(keys)
                reader = self._instance.engine.stream(session.connection, self._sql, self._values)
                with closing(batches_of(reader)) as batches:
                    table = pa.concat_batches([*batches, no_rows(reader.schema)])
            self._held.check()
        except failures.ENGINE_ERRORS as error:
            if failures.is_fatal(error):
                self._instance.broken = True
            raise self._failure(error) from error
        batch = self._conform(table)
        return Matches(
            rows=batch.column(0).to_numpy(),
            columns=batch_of(batch.columns[1:], batch.num_rows, self.schema),
        )

    def retryable(self, error: Exception) -> bool:
        return isinstance(error, _EngineError) and error.kind in _RETRYABLE

    def interrupt(self) -> None:
        with self._changed:
            busy = tuple(self._busy)
        for session in busy:
            with suppress(duckdb.Error):  # closed meanwhile
                session.connection.interrupt()

    def close(self) -> None:
        """End the look-ups in progress, and wait for them: the instance outlives the index, but not by much."""
        with self._changed:
            self._closed = True
            while self._busy:
                self.interrupt()
                self._changed.wait(_AGAIN)
            idle, self._idle = self._idle, []
        for session in idle:
            self._instance.disconnect(session.connection)
        self._held.close()

    def _failure(self, error: BaseException) -> _EngineError:
        limit = self._instance.settings.memory_limit
        message = failures.translate(error, "", limit, self._held.named(failures.text_of(error))).message
        return _EngineError(message, kind=failures.kind_of(error))

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Verify the checksums of the pages that a look-up reads, or raise. Look-ups run side by side on the same
        files, so one may verify what another has read: each waits for the others' verification, and fails with them.
        """
        if self._log is None:
            yield
            return
        paths = tuple(self._held.paths.values())
        self._log.begin()
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):  # where DuckDB has failed, its log fails, too
                self._log.end(paths)
            raise
        with self._checking:
            reads = self._log.end(paths)
            if self._damage is None:
                try:
                    check_read(self._pieces, self._read, self._held, look, reads)
                except SplitError as error:
                    self._damage = error
            if self._damage is not None:
                raise self._damage

    @contextmanager
    def _session(self) -> Iterator[_Session]:
        session = self._take()
        try:
            yield session
        finally:
            with self._changed:
                self._busy.remove(session)
                self._idle.append(session)
                self._changed.notify_all()

    def _take(self) -> _Session:
        with self._changed:
            if self._closed:
                raise interrupted(f"index {self.name!r}")
            if self._idle:
                session = self._idle.pop()
            else:
                session = _Session(self._instance.connect(), _Keys(self.key_types))
                self._instance.engine.register(session.connection, _KEYS, session.keys)
            self._busy.append(session)
            return session


class _EngineError(Exception):
    """A look-up's error in DuckDB: its text, and DuckDB's word for its kind."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def _statement(
    read: Sequence[Column], keys: int, pieces: Sequence[FilePiece], paths: Mapping[str, str]
) -> tuple[str, tuple[object, ...]]:
    """The SQL that joins keys and files. Every part that a plan may choose is bound or quoted."""
    files = define(FileSource(source=_FILES, relation=_FILES, columns=tuple(read), placed=True), pieces, 1, paths)
    equal = " AND ".join(f"{_KEYS}.c{i + 1} = {_FILES}.c{i}" for i in range(keys))
    columns = "".join(f", {_FILES}.c{i}" for i in range(keys, len(read)))
    positions = ", ".join(f"{_FILES}.p{i}" for i in range(3))
    return (
        f"WITH {files.sql} SELECT {_KEYS}.c0{columns} FROM {_KEYS} JOIN {_FILES} ON {equal} "
        f"ORDER BY {_KEYS}.c0, {positions}"
    ), files.values

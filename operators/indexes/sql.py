"""A table of a SQL database, looked up through ADBC.

One statement, `SELECT ... FROM table WHERE key = ? AND ...`, takes a batch of keys as a batch of bound rows; the
database finds each row with its own index. Names are quoted, values are bound. A database may call other values equal
(another collation, another type), so the keys of its rows are compared again, and only equal keys match. A database
gives rows in no fixed order, so the matches of a key are ordered by the values of their columns, from the first column
on, nulls last.

A column that the table lacks is an error that names the columns there are, or null where the task says so. The
database is asked for its columns at the first look-up that may be null, else only after a look-up has failed.

Connections are made when they are needed, one for each look-up at a time, and kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.errors import ExecutionError, SplitError
from ...proto.values import MissingColumns
from ..arrays.casts import LossyCast, cast, castable
from ..core.batches import batch_of
from ..core.column import Column
from ..core.interrupts import interrupted
from ..core.quoting import identifier, writable
from ..sources.formats.matching import NULL_HINT, listed
from .equality import equal_keys
from .index import Index, Matches

_ROW: Final = "tidegate_row"


def out_of_reach(error: Exception) -> bool:
    """True where ADBC says that the database is busy or out of reach, so that another try may succeed."""
    status = getattr(error, "status_code", None)
    return getattr(status, "name", "") in ("IO", "TIMEOUT")


@dataclass(frozen=True, slots=True)
class Database:
    """A database. `connect` opens a connection of an ADBC driver's `dbapi` module; `transient` says which errors may
    pass.
    """

    connect: Callable[[], Any]
    transient: Callable[[Exception], bool] = out_of_reach


def sqlite(path: str) -> Database:
    """A SQLite file, opened for reading alone. Needs the extra `tidegate[adbc]`."""
    from adbc_driver_sqlite import dbapi

    uri = f"file:{quote(path)}?mode=ro"

    def connect() -> Any:
        try:
            return dbapi.connect(uri, autocommit=True)
        except dbapi.Error as error:
            raise _Unopened("the file of the database cannot be opened") from error

    return Database(connect, _locked_or_out_of_reach)


class _Unopened(Exception):
    """The error in place of the driver's own, which has the file's path, not meant for a plan's author, and a wrong
    reason.
    """


def _locked_or_out_of_reach(error: Exception) -> bool:
    """True for a lock or a database out of reach. The driver reports a lock that it meets while preparing as a wrong
    argument.
    """
    return isinstance(error, _Unopened) or out_of_reach(error) or "database is locked" in str(error)


class SqlIndex(Index):
    """An index over the table `table` (a name, or schema and name) of `database`. `missing` says what columns are that
    the table lacks.
    """

    lasting = False

    def __init__(
        self,
        name: str,
        database: Database,
        table: Sequence[str],
        *,
        keys: Sequence[Column],
        columns: Sequence[Column],
        missing: MissingColumns = MissingColumns.ERROR,
    ) -> None:
        self.name = name
        self.key_types = tuple(key.type for key in keys)
        self.schema = pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])
        self._read = (*keys, *columns)
        self._keys = tuple(keys)
        self._columns = tuple(columns)
        self._table = tuple(table)
        self._missing = missing
        self._sql = _statement(name, table, keys, columns)
        self._asked = missing is MissingColumns.ERROR
        self._database = database
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._running: list[Any] = []
        self._closed = False

    def lookup(self, keys: pa.RecordBatch) -> Matches:
        table = self._fetch(keys)
        numbers = table.column(0)
        rows = numbers.cast(pa.int64()).to_numpy() if len(numbers) else np.empty(0, np.int64)
        arrays = [self._typed(column, table.column(i + 1)) for i, column in enumerate(self._read)]
        mine, columns = arrays[: keys.num_columns], arrays[keys.num_columns :]
        same = equal_keys(mine, [column.take(pa.array(rows)) for column in keys.columns])
        order = _order(rows, columns, np.flatnonzero(same))
        taken = pa.array(order)
        batch = batch_of([column.take(taken) for column in columns], len(order), self.schema)
        return Matches(rows=rows[order], columns=batch)

    def retryable(self, error: Exception) -> bool:
        return self._database.transient(error)

    def interrupt(self) -> None:
        with self._lock:
            running = tuple(self._running)
        for cursor in running:
            with suppress(Exception):  # ended meanwhile, or the driver cannot
                cursor.adbc_cancel()

    def close(self) -> None:
        """Close the connections. A connection in use is told to end; its look-up closes it."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self.interrupt()

    def _fetch(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """The key's row number, the keys and the columns of each match."""
        numbers = pa.array(range(keys.num_rows), pa.int64())
        bound = pa.RecordBatch.from_arrays([numbers, *keys.columns], names=[_ROW, *keys.schema.names])
        with self._connection() as connection, connection.cursor() as cursor:
            if not self._asked:
                self._null_where_missing(connection)
            with self._lock:
                self._running.append(cursor)
            try:
                cursor.execute(self._sql, bound)
                table = cursor.fetch_arrow_table()
            except Exception as error:
                if (there := self._there(connection)) is not None:
                    self._check_columns(there, error)
                raise
            finally:
                with self._lock:
                    self._running.remove(cursor)
        arrays = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])

    def _there(self, connection: Any) -> Sequence[str] | None:
        """The names of the table's columns; None where the database does not tell them."""
        where = {"db_schema_filter": self._table[0]} if len(self._table) > 1 else {}
        with suppress(Exception):  # the driver cannot, or the table is not there either
            names: Sequence[str] = connection.adbc_get_table_schema(self._table[-1], **where).names
            return names
        return None

    def _null_where_missing(self, connection: Any) -> None:
        """Read columns that the table lacks as null. Keys and required columns must be there."""
        there = self._there(connection)
        if there is not None:
            self._check_columns(there, None)
            known = {name.casefold() for name in there}
            null = frozenset(column.name for column in self._columns if column.name.casefold() not in known)
            self._sql = _statement(self.name, self._table, self._keys, self._columns, null)
        self._asked = True

    def _check_columns(self, there: Sequence[str], cause: Exception | None) -> None:
        """Raise for the first column that must be among those that are there, and is not."""
        known = {name.casefold() for name in there}
        for column in self._read:
            may_lack = column.nullable and column not in self._keys
            if column.name.casefold() in known or (may_lack and self._missing is MissingColumns.NULL):
                continue
            kind, hint = ("", NULL_HINT) if may_lack else ("required ", "")
            raise SplitError(
                f"index {self.name!r}: {kind}column {column.name!r} of table {'.'.join(self._table)!r} is missing; "
                f"there are: {listed(there)}{hint}",
                reason="MISSING_COLUMN",
            ) from cause

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection that no other look-up uses. It is not used again after an error."""
        with self._lock:
            if self._closed:
                raise interrupted(f"index {self.name!r}")
            idle = self._idle.pop() if self._idle else None
        connection = self._database.connect() if idle is None else idle
        good = False
        try:
            yield connection
            good = True
        finally:
            with self._lock:
                keep = good and not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _typed(self, column: Column, array: pa.Array) -> pa.Array:
        """The column as the plan's type: the driver takes the type from the values that it sees."""
        if array.null_count == len(array):
            array = pa.nulls(len(array), column.type)
        if array.null_count and not column.nullable:
            raise ExecutionError(f"required column {column.name!r} is null", reason="NULL_IN_REQUIRED_COLUMN")
        if not castable(array.type, column.type):
            raise ExecutionError(
                f"column {column.name!r} is {array.type} in the database, and {column.type} in the plan",
                reason="COLUMN_TYPE",
            )
        try:
            return cast(array, column.type)
        except LossyCast as error:
            raise ExecutionError(f"column {column.name!r}: {error}", reason="VALUE_LOST") from error


def _statement(
    name: str,
    table: Sequence[str],
    keys: Sequence[Column],
    columns: Sequence[Column],
    null: frozenset[str] = frozenset(),
) -> str:
    """The SQL of a look-up. The columns called as in `null` are null."""
    for part in (*table, *(column.name for column in (*keys, *columns))):
        if not writable(part):
            raise ExecutionError(f"index {name!r}: {part!r} cannot be written as a name in SQL")
    # The names are qualified, because SQLite takes a quoted name that it does not find for a text.
    read = ", ".join("NULL" if column.name in null else f"t.{identifier(column.name)}" for column in (*keys, *columns))
    where = " AND ".join(f"t.{identifier(key.name)} = ?" for key in keys)
    return f"SELECT ?, {read} FROM {'.'.join(map(identifier, table))} AS t WHERE {where}"


def _order(rows: np.ndarray[tuple[int], np.dtype[np.int64]], columns: Sequence[pa.Array], kept: Any) -> Any:
    """The positions `kept`, ordered by row and then by the columns' values. Floats that compare as equal are ordered by
    their bits.
    """
    by = [rows, *(key for column in columns for key in _sort_keys(column))]
    table = pa.table([pa.array(kept), *(pa.array(key).take(pa.array(kept)) for key in by)], names=_names(len(by) + 1))
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names[1:]])
    return kept[order.to_numpy()]


def _sort_keys(column: pa.Array) -> list[pa.Array]:
    if kinds.is_float64(column.type):
        return [column, column.view(pa.int64())]
    if kinds.is_float32(column.type):
        return [column, column.view(pa.int32())]
    return [column.storage if isinstance(column, pa.ExtensionArray) else column]


def _names(count: int) -> list[str]:
    return [str(i) for i in range(count)]

"""The functions of a statement that are in Python: the count of the bytes of values that it makes, before they are made
and where they are many, and those of `PYTHON_FUNCTIONS`.

A statement asks `WIDE_ROWS` about the rows that may have more than `WIDE_FROM` bytes, or `WIDE_OUTPUT` where it may
hand these rows out itself. Narrower rows cost a comparison.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ...proto.errors import ExecutionError, TidegateError
from ..python_functions import GIVEN, PYTHON_FUNCTIONS, ROW_STEPS, SHARED_STEPS, PythonFunction
from . import failures
from .choose_engine import default_engine
from .duckdb_calls import BATCH_ROWS, Connection

WIDE_ROWS: Final = "wide_rows"
WIDE_OUTPUT: Final = "wide_rows_handed_out"
WIDE_FROM: Final = "wide_from()"

_SHARE: Final = 8
"""The values that a statement makes of some rows may take one part in so many of the instance's memory."""

_WAITING_SHARE: Final = 2
"""The values of rows that DuckDB gathers for a batch, which it counts nowhere, may take one part in so many of the
instance's memory. They are many where a filter or a join leaves few rows of those that are computed at once.
"""

_MOST_PREPARED: Final = 64
"""The statements of functions that a connection keeps prepared."""

_NUMBERS: Final = itertools.count()
_NAMES: Final = "|".join((WIDE_ROWS, WIDE_OUTPUT, *(function.name for function in PYTHON_FUNCTIONS)))
_TOKENS: Final = re.compile(rf"'(?:[^']|'')*'|\b(?:{_NAMES})\(|{re.escape(WIDE_FROM)}|{re.escape(SHARED_STEPS)}")


class MadeBytes:
    """The counting of one statement, under names of its own on the instance. With `in_all` it counts all rows of a run,
    else those that DuckDB computes at once. `failure` is the error that stopped the statement. `check` raises an error
    once the statement has been interrupted.
    """

    def __init__(
        self,
        sql: str,
        connection: Connection,
        *,
        memory: int,
        threads: int,
        check: Callable[[], None],
        plan_path: str = "",
    ) -> None:
        self.failure: TidegateError | None = None
        self.in_all = False
        self._connection = connection
        self._inner = InnerStatements(connection)
        self._guards = sum(_uses(sql, name) for name in (WIDE_ROWS, WIDE_OUTPUT))
        self._memory, self._most, self._most_waiting = memory, memory // _SHARE, memory // _WAITING_SHARE
        self._at_once = self._most // max(self._guards * threads, 1)
        self._counted = 0.0
        self._waiting: float | None = None
        self._check, self._plan_path = check, plan_path
        self._number = next(_NUMBERS)
        self._names: list[str] = []
        """The functions that the statement uses."""
        for function in PYTHON_FUNCTIONS:
            if _uses(sql, function.name):
                compute = function.callable(partial(self._compute, function))
                self._create(function.name, compute, function.parameters, function.result)
        if self._guards:  # the statement's ordered form may ask the other one
            for name, count in ((WIDE_ROWS, self._count), (WIDE_OUTPUT, self._count_output)):
                self._create(name, count, ("DOUBLE", "VARCHAR", "BOOLEAN"), "BOOLEAN")

    def __bool__(self) -> bool:
        """True where the statement makes values that need a guard."""
        return bool(self._guards)

    def named(self, sql: str) -> str:
        """The statement, with this counting's names."""
        if not self._names:
            return sql
        names = {f"{name}(": f"{self._named(name)}(" for name in self._names} | {
            WIDE_FROM: f"{self._most // BATCH_ROWS}e0",
            SHARED_STEPS: f"{ROW_STEPS // max(_count_of(sql, SHARED_STEPS), 1)}e0",
        }
        return _TOKENS.sub(lambda match: names.get(match.group(), match.group()), sql)

    def begin(self, *, in_all: bool) -> None:
        """Begin a run."""
        self.failure, self.in_all, self._counted, self._waiting = None, in_all, 0.0, None

    def handed_out(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The batches that DuckDB hands out while it computes the rows of later ones."""
        self._waiting = 0.0
        for batch in batches:
            self._waiting = 0.0
            yield batch

    def close(self) -> None:
        self._guards = 0
        self._inner.close()
        while self._names:
            with suppress(duckdb.Error):  # the connection is closed
                self._connection.remove_function(self._named(self._names.pop()))

    def _create(self, name: str, compute: Callable[..., pa.Array], parameters: Sequence[str], result: str) -> None:
        self._connection.create_function(
            self._named(name), compute, list(parameters), result, type="arrow", null_handling="special"
        )
        self._names.append(name)

    def _named(self, name: str) -> str:
        return f"{name}_{self._number}"

    def _compute(self, function: PythonFunction, *columns: pa.ChunkedArray) -> pa.Array:
        try:
            return function.over(columns, self._check, self._inner.ask)
        except duckdb.Error as error:
            self.failure = failures.translate(error, self._plan_path, self._memory)
            raise self.failure from error
        except (ValueError, IndexError) as error:
            self.failure = ExecutionError(f"{self._plan_path}: {error}")
            raise self.failure from error

    def _count(self, sizes: pa.ChunkedArray, plan_paths: pa.ChunkedArray, _: pa.ChunkedArray) -> pa.Array:
        size, rows = float(pc.sum(sizes).as_py() or 0.0), len(sizes)
        self._counted = self._counted + size if self.in_all else size
        most = self._most if self.in_all else self._at_once
        if self._counted > most:
            self.failure = _too_many(
                plan_paths[0].as_py(), self._counted if rows == 1 else float(pc.max(sizes).as_py()), self._counted, most
            )
            raise self.failure
        return pa.nulls(rows, pa.bool_()).fill_null(False)

    def _count_output(self, sizes: pa.ChunkedArray, plan_paths: pa.ChunkedArray, varying: pa.ChunkedArray) -> pa.Array:
        answer = self._count(sizes, plan_paths, varying)
        if self._waiting is not None:
            self._waiting += float(pc.sum(sizes).as_py() or 0.0)
            if self._waiting > self._most_waiting:
                self.failure = _too_many_waiting(plan_paths[0].as_py(), self._waiting, self._most_waiting)
                raise self.failure
        return answer


def _uses(sql: str, function: str) -> int:
    return _count_of(sql, f"{function}(")


def _count_of(sql: str, token: str) -> int:
    return sum(match.group() == token for match in _TOKENS.finditer(sql)) if token in sql else 0


def _too_many(plan_path: str, row: float, size: float, most: int) -> ExecutionError:
    if row > most:
        return ExecutionError(
            f"{plan_path}: makes up to {row:,.0f} bytes of texts and lists of one row; at most {most:,} are allowed "
            f"with this memory_limit: make shorter values, or raise memory_limit",
            reason="ROW_TOO_LARGE",
        )
    return ExecutionError(
        f"{plan_path}: makes up to {size:,.0f} bytes of texts and lists of rows that DuckDB computes at once; at most "
        f"{most:,} are allowed with this memory_limit: make shorter values, or raise memory_limit",
        reason="MEMORY_LIMIT",
    )


def _too_many_waiting(plan_path: str, size: float, most: int) -> ExecutionError:
    return ExecutionError(
        f"{plan_path}: makes up to {size:,.0f} bytes of texts and lists of rows that DuckDB hands out at once; at most "
        f"{most:,} are allowed with this memory_limit: make shorter values, or raise memory_limit",
        reason="MEMORY_LIMIT",
    )


class InnerStatements:
    """The statements that functions of a statement run on its DuckDB instance, on the thread that asks, while it runs.
    Each has a connection of its own at a time. Any thread may ask. `close` closes the connections.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._idle: list[_Inner] = []

    def ask(self, sql: str, table: pa.Table) -> pa.Table:
        """The rows of a SELECT over the relation `GIVEN`, in order."""
        try:
            inner = self._idle.pop()
        except IndexError:
            inner = _Inner(self._connection.cursor(), table.schema)
        try:
            return inner.ask(sql, table)
        finally:
            self._idle.append(inner)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _Inner:
    """A connection with its prepared statements. As a relation, it is the rows of one call."""

    rows = 1

    def __init__(self, connection: Connection, schema: pa.Schema) -> None:
        self.schema = schema
        self._connection = connection
        self._engine = default_engine(connection)
        self._prepared: dict[str, str] = {}
        self._given = schema.empty_table()
        self._engine.register(connection, GIVEN, self)

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        return (self._given if columns is None else self._given.select(list(columns))).to_reader()

    def ask(self, sql: str, table: pa.Table) -> pa.Table:
        self._given = table
        if sql not in self._prepared:
            self._prepare(sql)
        try:
            return pa.Table.from_batches(self._engine.execute(self._connection, self._prepared[sql], sql))
        finally:
            self._given = self.schema.empty_table()

    def close(self) -> None:
        with suppress(duckdb.Error):  # closed meanwhile
            self._connection.close()

    def _prepare(self, sql: str) -> None:
        if len(self._prepared) == _MOST_PREPARED:
            for name in self._prepared.values():
                self._connection.execute(f"DEALLOCATE {name}")
            self._prepared.clear()
        name = f"inner_{len(self._prepared)}"
        self._engine.prepare(self._connection, name, sql)
        self._prepared[sql] = name

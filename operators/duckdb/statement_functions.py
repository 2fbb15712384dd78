"""The functions of a statement that are in Python: those that count the bytes of the values that it makes, and those of
`PYTHON_FUNCTIONS`. DuckDB has them under names of their own for each statement.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final

import duckdb
import pyarrow as pa

from ...proto.arrow.without_rows import empty_table
from ...proto.errors import ExecutionError, TidegateError
from ..core.blocks import gathered
from ..python_functions import (
    GIVEN,
    PYTHON_FUNCTIONS,
    ROW_STEPS,
    SHARED,
    WIDE_FROM,
    WIDE_OUTPUT,
    WIDE_ROWS,
    MadeBytes,
    PythonFunction,
    shared,
)
from . import failures
from .choose_engine import default_engine
from .duckdb_calls import BATCH_ROWS, Connection

_MOST_PREPARED: Final = 64
"""The statements of functions that a connection keeps prepared."""

_NUMBERS: Final = itertools.count()
_NAMES: Final = "|".join((WIDE_ROWS, WIDE_OUTPUT, *(function.name for function in PYTHON_FUNCTIONS)))
_TOKENS: Final = re.compile(rf"'[^']*'|\b(?:{_NAMES})\(|{re.escape(WIDE_FROM)}|(?P<shared>{SHARED})")


class StatementFunctions:
    """The functions of one statement, and their `counting` of bytes. `failure` is the error that stopped the statement.
    `check` raises an error once the statement has been interrupted.
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
        self.counting = MadeBytes(sum(_uses(sql, name) for name in (WIDE_ROWS, WIDE_OUTPUT)), memory, threads)
        self._connection = connection
        self._inner = InnerStatements(connection)
        self._memory, self._check, self._plan_path = memory, check, plan_path
        self._number = next(_NUMBERS)
        self._names: list[str] = []
        """The functions that the statement uses."""
        for function in PYTHON_FUNCTIONS:
            if _uses(sql, function.name):
                compute = function.callable(partial(self._compute, function))
                self._create(function.name, compute, function.parameters, function.result)
        if self.counting:  # the statement's ordered form may ask the other one
            for name, count in ((WIDE_ROWS, self.counting.count), (WIDE_OUTPUT, self.counting.count_output)):
                self._create(name, partial(self._counted, count), ("DOUBLE", "VARCHAR", "BOOLEAN"), "BOOLEAN")

    def named(self, sql: str) -> str:
        """The statement, with these functions' names."""
        if not self._names:
            return sql
        names = {f"{name}(": f"{self._named(name)}(" for name in self._names} | {
            WIDE_FROM: f"{self.counting.wide_from(BATCH_ROWS)}e0",
        }
        steps = ROW_STEPS // max(sum(match["shared"] is not None for match in _TOKENS.finditer(sql)), 1)

        def written(match: re.Match[str]) -> str:
            token = match.group()
            return shared(token, steps) if match["shared"] else names.get(token, token)

        return _TOKENS.sub(written, sql)

    def begin(self, *, in_all: bool) -> None:
        """Begin a run, which `counting` counts as said there."""
        self.failure = None
        self.counting.begin(in_all=in_all)

    def gathered(self, rows: Generator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The rows that DuckDB hands out, in fewer batches. Closing the iterator closes `rows`."""
        with closing(rows):
            yield from gathered(self.counting.handed_out(rows))

    def close(self) -> None:
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

    def _counted(
        self,
        count: Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.Array],
        sizes: pa.ChunkedArray,
        plan_paths: pa.ChunkedArray,
        _: pa.ChunkedArray,
    ) -> pa.Array:
        try:
            return count(sizes, plan_paths)
        except ExecutionError as error:
            self.failure = error
            raise


def _uses(sql: str, function: str) -> int:
    return _count_of(sql, f"{function}(")


def _count_of(sql: str, token: str) -> int:
    return sum(match.group() == token for match in _TOKENS.finditer(sql)) if token in sql else 0


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
        self._given = empty_table(schema)
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
            self._given = empty_table(self.schema)

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

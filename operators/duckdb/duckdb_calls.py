"""The calls of DuckDB's Python module that fragments make: three, in a public and a private form.

The private form (`duckdb_private`) tells DuckDB how many rows a stream has, hands out only the columns that a statement
reads, and fetches Arrow without a copy. `choose_engine` takes the private form where it works. The public form gives
the same rows, but slower: without estimates, and with every statement planned when it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import wraps
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from .failures import is_of_signal

P = ParamSpec("P")
T = TypeVar("T")

Connection: TypeAlias = duckdb.DuckDBPyConnection
Values: TypeAlias = Sequence[object]

BATCH_ROWS = 65_536


def interruptible(call: Callable[P, T]) -> Callable[P, T]:
    """The call of DuckDB, which raises `KeyboardInterrupt` if a signal interrupts it. DuckDB raises a `RuntimeError` in
    place of what the signal's handler has raised.
    """

    @wraps(call)
    def called(*values: P.args, **named: P.kwargs) -> T:
        try:
            return call(*values, **named)
        except RuntimeError as error:
            if is_of_signal(error):
                raise KeyboardInterrupt from error
            raise

    return called


class Relation(Protocol):
    """A stream as DuckDB sees it. `open` returns a new reader, over all columns or over those at the given
    positions.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows(self) -> int: ...

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader: ...


class Engine(Protocol):
    """A form of DuckDB's calls. `prepares` says whether `execute` runs the plan that `prepare` has made, or plans
    again.
    """

    prepares: bool

    def register(self, connection: Connection, name: str, relation: Relation) -> None: ...

    def prepare(self, connection: Connection, name: str, sql: str) -> None: ...

    def prepared(self, name: str, sql: str) -> str:
        """The text that runs the statement prepared under `name`."""
        ...

    def execute(self, connection: Connection, name: str, sql: str) -> Sequence[pa.RecordBatch]:
        """All rows of the statement prepared under `name`."""
        ...

    def stream(self, connection: Connection, sql: str, values: Values, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """Plan a SELECT and read it lazily, in batches of `rows`. The reader owns the connection until it is closed."""
        ...


class _PublicStream:
    """`Relation` in the public Arrow stream protocol."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation

    def __arrow_c_schema__(self) -> object:
        return self._relation.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._relation.open(None).__arrow_c_stream__()


class PublicEngine:
    """The form with the documented API alone. There `EXECUTE` gives Arrow only with a copy, so statements are planned
    anew.
    """

    prepares = False

    @interruptible
    def register(self, connection: Connection, name: str, relation: Relation) -> None:
        connection.register(name, _PublicStream(relation))

    @interruptible
    def prepare(self, connection: Connection, name: str, sql: str) -> None:  # noqa: ARG002
        """Check the statement. There is no plan to keep."""
        connection.sql(sql)

    def prepared(self, name: str, sql: str) -> str:  # noqa: ARG002
        return sql

    def execute(self, connection: Connection, name: str, sql: str) -> Sequence[pa.RecordBatch]:  # noqa: ARG002
        return list(self.stream(connection, sql, ()))

    @interruptible
    def stream(self, connection: Connection, sql: str, values: Values, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        return connection.sql(sql, params=list(values) or None).to_arrow_reader(rows)


def opened(config: Mapping[str, str | int]) -> Connection:
    """A connection to a new database in memory. It is not the database's first connection: in an interactive session
    DuckDB draws progress bars for the first one.
    """
    return duckdb.connect(":memory:", config=dict(config)).cursor()


def estimate_progress(connection: Connection) -> None:
    """Let `query_progress` report the connection's statements, without a progress bar."""
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET enable_progress_bar = true")


def hand_on_at_once(connection: Connection) -> None:
    """Let the operators of the connection's statements hand on the rows that they have left of a chunk.

    They would wait otherwise until they have nearly 2,048 rows: filters and joins would hold gigabytes of wide rows,
    which DuckDB does not count.
    """
    connection.execute("SET enable_caching_operators = false")


def batches_of(reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch]:
    """The reader's batches. Closing the iterator closes the reader, and with it the statement."""
    try:
        yield from reader
    finally:
        reader.close()

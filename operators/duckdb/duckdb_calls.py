"""How fragments talk to DuckDB's Python module: three calls, in a public and a private form.

The private form (`duckdb_private`) tells DuckDB how many rows a stream has and hands out only the columns a statement
reads, and fetches Arrow without a copy. `choose_engine` uses it where it finds it working; else the public form
gives the same rows, slower: without estimates, and with every statement planned when it is run.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol, TypeAlias

import duckdb
import pyarrow as pa

Connection: TypeAlias = duckdb.DuckDBPyConnection
Values: TypeAlias = Sequence[object]

BATCH_ROWS = 65_536


class Relation(Protocol):
    """A stream as DuckDB sees it: `open` gives a new reader, over all columns or over those of these places."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows(self) -> int: ...

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader: ...


class Engine(Protocol):
    """`prepares` says whether `execute` runs what `prepare` has planned, or plans again."""

    prepares: bool

    def register(self, connection: Connection, name: str, relation: Relation) -> None: ...

    def prepare(self, connection: Connection, name: str, sql: str) -> None: ...

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
    """The documented API alone. `EXECUTE` has no way to Arrow there without a copy, so statements are planned anew."""

    prepares = False

    def register(self, connection: Connection, name: str, relation: Relation) -> None:
        connection.register(name, _PublicStream(relation))

    def prepare(self, connection: Connection, name: str, sql: str) -> None:  # noqa: ARG002
        """Only checks the statement: there is nothing to keep."""
        connection.sql(sql)

    def execute(self, connection: Connection, name: str, sql: str) -> Sequence[pa.RecordBatch]:  # noqa: ARG002
        return list(self.stream(connection, sql, ()))

    def stream(self, connection: Connection, sql: str, values: Values, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        return connection.sql(sql, params=list(values) or None).to_arrow_reader(rows)


def opened(config: Mapping[str, str | int]) -> Connection:
    """A connection to a database of its own, in memory. Not the first one to it: in an interactive session DuckDB draws
    progress bars for that one.
    """
    return duckdb.connect(":memory:", config=dict(config)).cursor()


def estimate_progress(connection: Connection) -> None:
    """Let `query_progress` tell of its statements, which draws nothing."""
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET enable_progress_bar = true")


def batches_of(reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch]:
    """The reader's batches; closing the iterator closes the reader, and so the statement behind it."""
    try:
        yield from reader
    finally:
        reader.close()

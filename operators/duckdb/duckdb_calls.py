"""How fragments talk to DuckDB's Python module: three calls, in a public and a private form.

The private form (`duckdb_private`) tells DuckDB how many rows a stream has and hands out only the columns a statement
reads, and fetches Arrow without a copy. It is used where a probe finds it and finds it working; else the public form
gives the same rows, slower: without estimates, and with every statement planned when it is run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from typing import Protocol, TypeAlias

import duckdb
import pyarrow as pa

Connection: TypeAlias = duckdb.DuckDBPyConnection
Values: TypeAlias = Sequence[object]

BATCH_ROWS = 65_536
PROBE = "probe"


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


class _ProbeRelation:
    """Two columns, one of which the probe's statement reads, and an estimate that it looks for."""

    schema = pa.schema([("c0", pa.int64()), ("c1", pa.string())])
    rows = 4_321

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        table = pa.table({"c0": [1, 2, 3], "c1": ["a", "b", "c"]}, schema=self.schema)
        return (table if columns is None else table.select(list(columns))).to_reader()


def opened(config: Mapping[str, str | int]) -> Connection:
    """A connection to a database of its own, in memory. Not the first one to it: in an interactive session DuckDB draws
    progress bars for that one.
    """
    return duckdb.connect(":memory:", config=dict(config)).cursor()


def estimate_progress(connection: Connection) -> None:
    """Let `query_progress` tell of its statements, which draws nothing."""
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET enable_progress_bar = true")


def works(engine: Engine) -> bool:
    """Whether `engine` does on a small example, twice, what fragments rely on."""
    sql = f"SELECT sum(c0)::BIGINT AS s FROM {PROBE}"
    connection = opened({"threads": 1, "async_threads": 0})
    try:
        engine.register(connection, PROBE, _ProbeRelation())
        engine.prepare(connection, "p", sql)
        executed = [pa.Table.from_batches(engine.execute(connection, "p", sql)).to_pydict() for _ in range(2)]
        streamed = engine.stream(connection, f"SELECT c1 FROM {PROBE} WHERE c0 > $1", [2]).read_all().to_pydict()
        estimate = connection.execute(f"EXPLAIN SELECT c0 FROM {PROBE}").fetchall()[0][1]
    except Exception:  # noqa: BLE001 - whatever a private interface of another version does, the public one is there
        return False
    finally:
        connection.close()
    seen = f"{_ProbeRelation.rows:,}" in estimate or not engine.prepares
    return seen and executed == [{"s": [6]}] * 2 and streamed == {"c1": ["c"]}


def _private() -> Engine:
    from .duckdb_private import PrivateEngine

    return PrivateEngine()


def choose(private: Callable[[], Engine]) -> Engine:
    """The private form where it can be had and works, else the public one."""
    try:
        engine = private()
    except (ImportError, AttributeError):
        return PublicEngine()
    return engine if works(engine) else PublicEngine()


@cache
def default_engine() -> Engine:
    """The engine of this process, probed once."""
    return choose(_private)


def batches_of(reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch]:
    """The reader's batches; closing the iterator closes the reader, and so the statement behind it."""
    try:
        yield from reader
    finally:
        reader.close()

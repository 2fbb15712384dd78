"""Chooses how to call DuckDB: by its private Python interface if that is known to work, or by the public one.

It is known for versions with which the tests have passed. With another version, a probe shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Final

import duckdb
import pyarrow as pa

from ...proto.allocator import also_give_back
from .duckdb_calls import Connection, Engine, PublicEngine

PROBE = "probe"
TESTED: Final = frozenset({"2.0.0"})
"""Versions of DuckDB whose private interface passes the tests. They need no probe, which takes 8 ms of CPU time."""
_default: Final[list[Engine]] = []


class _ProbeRelation:
    """The probe's relation: two columns, of which the statement reads one, and an estimate that the probe looks for."""

    schema = pa.schema([("c0", pa.int64()), ("c1", pa.string())])
    rows = 4_321

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        # of bytes: an array of Python values would have pyarrow import pandas, which takes 0.3 s
        numbers = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(struct.pack("3q", 1, 2, 3))])
        texts = pa.Array.from_buffers(
            pa.string(), 3, [None, pa.py_buffer(struct.pack("4i", 0, 1, 2, 3)), pa.py_buffer(b"123")]
        )
        table = pa.Table.from_arrays([numbers, texts], schema=self.schema)
        return (table if columns is None else table.select(list(columns))).to_reader()


def works(engine: Engine, connection: Connection) -> bool:
    """True where `engine` does, twice, on a small example, all that fragments rely on."""
    sql = f"SELECT sum(c0)::BIGINT AS s FROM {PROBE}"
    try:
        engine.register(connection, PROBE, _ProbeRelation())
        engine.prepare(connection, "p", sql)
        executed = [pa.Table.from_batches(engine.execute(connection, "p", sql)).to_pydict() for _ in range(2)]
        streamed = engine.stream(connection, f"SELECT c1 FROM {PROBE} WHERE c0 > $1", [2]).read_all().to_pydict()
        estimate = connection.execute(f"EXPLAIN SELECT c0 FROM {PROBE}").fetchall()[0][1]
    except Exception:  # noqa: BLE001 - a private interface of another version may do anything; the public one remains
        return False
    seen = f"{_ProbeRelation.rows:,}" in estimate or not engine.prepares
    return seen and executed == [{"s": [6]}] * 2 and streamed == {"c1": ["3"]}


def _private() -> Engine:
    from .duckdb_private import PrivateEngine

    return PrivateEngine()


def choose(private: Callable[[], Engine], database: Connection, tested: Collection[str] = TESTED) -> Engine:
    """The private form where it can be made, and its version is a tested one or it works on a connection to this
    database; else the public one.
    """
    try:
        engine = private()
    except (ImportError, AttributeError):
        return PublicEngine()
    if duckdb.__version__ in tested:
        return engine
    with closing(database.cursor()) as connection:
        return engine if works(engine, connection) else PublicEngine()


def default_engine(database: Connection) -> Engine:
    """The engine of this process, chosen once, on the first database. From then on `give_back` gives back DuckDB's
    freed memory too.
    """
    if not _default:
        engine = choose(_private, database)
        if engine.prepares:
            from .duckdb_private import freed_memory

            if (freed := freed_memory()) is not None:
                also_give_back(freed)
        _default.append(engine)
    return _default[0]

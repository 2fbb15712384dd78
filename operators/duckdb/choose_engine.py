"""Chooses how to call DuckDB: by its private Python interface if a probe shows that it works, or by the public one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pyarrow as pa

from ...proto.allocator import also_give_back
from .duckdb_calls import Engine, PublicEngine, opened

PROBE = "probe"


class _ProbeRelation:
    """The probe's relation: two columns, of which the statement reads one, and an estimate that the probe looks for."""

    schema = pa.schema([("c0", pa.int64()), ("c1", pa.string())])
    rows = 4_321

    def open(self, columns: Sequence[int] | None) -> pa.RecordBatchReader:
        table = pa.table({"c0": [1, 2, 3], "c1": ["a", "b", "c"]}, schema=self.schema)
        return (table if columns is None else table.select(list(columns))).to_reader()


def works(engine: Engine) -> bool:
    """True where `engine` does, twice, on a small example, all that fragments rely on."""
    sql = f"SELECT sum(c0)::BIGINT AS s FROM {PROBE}"
    connection = opened({"threads": 1, "async_threads": 0})
    try:
        engine.register(connection, PROBE, _ProbeRelation())
        engine.prepare(connection, "p", sql)
        executed = [pa.Table.from_batches(engine.execute(connection, "p", sql)).to_pydict() for _ in range(2)]
        streamed = engine.stream(connection, f"SELECT c1 FROM {PROBE} WHERE c0 > $1", [2]).read_all().to_pydict()
        estimate = connection.execute(f"EXPLAIN SELECT c0 FROM {PROBE}").fetchall()[0][1]
    except Exception:  # noqa: BLE001 - a private interface of another version may do anything; the public one remains
        return False
    finally:
        connection.close()
    seen = f"{_ProbeRelation.rows:,}" in estimate or not engine.prepares
    return seen and executed == [{"s": [6]}] * 2 and streamed == {"c1": ["c"]}


def _private() -> Engine:
    from .duckdb_private import PrivateEngine

    return PrivateEngine()


def choose(private: Callable[[], Engine]) -> Engine:
    """The private form where it can be made and works, else the public one."""
    try:
        engine = private()
    except (ImportError, AttributeError):
        return PublicEngine()
    return engine if works(engine) else PublicEngine()


@cache
def default_engine() -> Engine:
    """The engine of this process, probed once. From then on `give_back` gives back DuckDB's freed memory too."""
    engine = choose(_private)
    if engine.prepares:
        from .duckdb_private import freed_memory

        if (freed := freed_memory()) is not None:
            also_give_back(freed)
    return engine

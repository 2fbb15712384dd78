"""Strict fragments give one digest however their input arrives: on inputs on which DuckDB alone would not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.arrays.digest import digest
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.choose_engine import default_engine
from tidegate.operators.duckdb.duckdb_calls import Engine, opened
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.duckdb.statement_inputs import StreamSource

from ..searching import one_of_each

Cut = Callable[[pa.Table], Iterator[pa.RecordBatch]]

PAIRS = pa.schema([("k", pa.int64()), ("v", pa.float64())])


@pytest.fixture
def engine() -> Engine:
    """One is enough: how a statement is handed over does not change what it computes."""
    return default_engine(opened({}))


def pairs(rows: int, keys: int, seed: int = 1) -> pa.Table:
    """Pairs of a key and a float whose sums depend on the order of adding."""
    chooser = np.random.default_rng(seed)
    values = chooser.standard_normal(rows) * 10.0 ** chooser.integers(-8, 8, rows)
    return pa.table({"k": chooser.integers(0, keys, rows), "v": values}, schema=PAIRS)


def at_once(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches()


def every(rows: int) -> Cut:
    return lambda table: iter(table.to_batches(max_chunksize=rows))


def oddly(table: pa.Table) -> Iterator[pa.RecordBatch]:
    chooser = np.random.default_rng(7)
    at = 0
    while at < table.num_rows:
        rows = int(chooser.integers(1, 9_000))
        yield from table.slice(at, rows).to_batches()
        at += rows


CUTS: dict[str, Cut] = {
    "at once": at_once,
    "1,000": every(1_000),
    "2,048": every(2_048),
    "70,001": every(70_001),
    "oddly": oddly,
}

MANY_MATCHES = "SELECT a.c0, a.c1 + b.c1 FROM in0 a JOIN in1 b ON a.c0 = b.c0"
SUM_OF_JOIN = "SELECT a.c0, sum(a.c1 * b.c1) FROM in0 a JOIN in1 b ON a.c0 = b.c0 GROUP BY a.c0"
OUTER_JOIN = "SELECT coalesce(a.c0, b.c0), b.c1 FROM in0 a FULL JOIN in1 b ON a.c0 = b.c0 AND a.c1 < b.c1"
SEMI_JOIN = "SELECT c0, c1 FROM in0 WHERE c0 IN (SELECT c0 FROM in1 WHERE c1 > 0)"
ANTI_JOIN = "SELECT c0, c1 FROM in0 WHERE NOT EXISTS (SELECT 1 FROM in1 WHERE in1.c0 = in0.c0)"
INTERSECT = "SELECT c0, 1.0::DOUBLE FROM (SELECT c0 FROM in0 INTERSECT SELECT c0 FROM in1)"
MANY_GROUPS = "SELECT c0, sum(c1) FROM in0 GROUP BY c0"


FETCHED, STREAMED = 10_000, 1_000_000
"""So many rows of a stream are fetched by the engine, or handed to it as they come."""


def run(
    instance: Instance, sql: str, tables: Sequence[pa.Table], cut: Cut, size_class: int, strict: bool = True
) -> str:
    sources = [StreamSource(relation=f"in{i}", schema=PAIRS, size_class=size_class) for i in range(len(tables))]
    fragment = Fragment(sql, schema=PAIRS, instance=instance, streams=sources, strict=strict)
    try:
        return digest(PAIRS, fragment.run([BatchStream(PAIRS, cut(table)) for table in tables]))
    finally:
        fragment.close()


@pytest.mark.parametrize(
    ("sql", "size_class"),
    one_of_each(product([MANY_MATCHES, SUM_OF_JOIN, OUTER_JOIN, SEMI_JOIN, ANTI_JOIN, INTERSECT], [FETCHED, STREAMED])),
)
def test_a_join_of_many_matches_gives_one_digest(sql: str, size_class: int, instance: Instance) -> None:
    tables = [pairs(150_000, 30_000, 1), pairs(80_000, 30_000, 2)]
    assert len({run(instance, sql, tables, cut, size_class) for cut in CUTS.values()}) == 1


def test_a_million_groups_give_one_digest(instance: Instance) -> None:
    table = pairs(2_000_000, 1_200_000)
    assert len({run(instance, MANY_GROUPS, [table], cut, 10_000_000) for cut in CUTS.values()}) == 1


def test_one_row_batches_give_the_same_digest(instance: Instance) -> None:
    tables = [pairs(70_000, 9_000, 1), pairs(70_000, 9_000, 2)]
    digests = {run(instance, SUM_OF_JOIN, tables, cut, 1_000_000) for cut in (every(1), at_once)}
    assert len(digests) == 1


def test_without_blocks_the_cuts_would_show(instance: Instance) -> None:
    """What the other tests rely on: these inputs are ones that hurt."""
    tables = [pairs(150_000, 30_000, 1), pairs(80_000, 30_000, 2)]
    digests = {run(instance, MANY_MATCHES, tables, cut, 1_000_000, strict=False) for cut in CUTS.values()}
    assert len(digests) > 1


def test_an_instance_that_was_used_before_gives_the_same_digest(pool: InstancePool) -> None:
    tables = [pairs(150_000, 30_000, 1), pairs(80_000, 30_000, 2)]
    settings = InstanceSettings(memory_limit=1 << 30)
    first = pool.take(settings)
    expected = run(first, SUM_OF_JOIN, tables, at_once, 1_000_000)
    run(first, MANY_GROUPS, [pairs(500_000, 400_000)], at_once, 1_000_000)
    assert run(first, SUM_OF_JOIN, tables, oddly, 1_000_000) == expected
    fresh = pool.take(settings)
    assert run(fresh, SUM_OF_JOIN, tables, oddly, 1_000_000) == expected
    first.close()
    fresh.close()


_PROCESS = """
import sys
from tests.operators import test_determinism as t
from tidegate.operators.duckdb.instances import InstancePool, InstanceSettings
pool = InstancePool(sys.argv[1])
instance = pool.take(InstanceSettings(memory_limit=1 << 30))
tables = [t.pairs(150_000, 30_000, 1), t.pairs(80_000, 30_000, 2)]
print(t.run(instance, t.SUM_OF_JOIN, tables, t.oddly, 1_000_000))
print(instance.connect().execute("SELECT epoch('2024-07-01 12:00:00'::TIMESTAMPTZ)").fetchone())
instance.close()
pool.close()
"""


def test_processes_of_other_environments_give_the_same_digest(tmp_path: object) -> None:
    def answer(**changes: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", _PROCESS, str(tmp_path)],
            env={**os.environ, **changes},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    first = answer(TZ="Asia/Tokyo", PYTHONHASHSEED="1", LC_ALL="C", OMP_NUM_THREADS="1")
    second = answer(TZ="America/New_York", PYTHONHASHSEED="2", LC_ALL="C.UTF-8", OMP_NUM_THREADS="4")
    assert first == second
    assert first.count("\n") == 2

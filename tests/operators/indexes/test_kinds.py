"""Behaviour that all kinds of index share, against joins made row by row and in DuckDB's SQL."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.executor.runtime.side_threads import SideThreads
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.testing import CHECKS, Case

from ...duckdb_oracle import oracle
from ...searching import tries
from ..data import stream
from .joining import KINDS, joining, naive_join, open_kind, tuples

TABLE = pa.table(
    {
        "a": pa.array([3, 1, None, 2, 1, 3, 1], pa.int64()),
        "b": ["x", "y", "y", None, "", "x", "y"],
        "v": pa.array([7, 6, 5, 4, None, 2, 1], pa.int64()),
    }
)
PROBE = pa.table({"p": range(8), "k": pa.array([1, 9, None, 3, 1, 2, 3, 0], pa.int64())})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def instance(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    pool = InstancePool(tmp_path_factory.mktemp("spill"))
    instance_ = pool.take(InstanceSettings(memory_limit=1 << 30, roots=(str(root),)))
    yield instance_
    instance_.close()
    pool.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_join_is_an_operator_with_every_kind(kind: str, check, root: Path, instance: Instance) -> None:  # type: ignore[no-untyped-def]
    def make():  # type: ignore[no-untyped-def]
        index = open_kind(kind, TABLE, ["a"], ["b", "v"], root=root, instance=instance)
        return joining(index, PROBE.schema, ["k"], join="left", batch_rows=3)

    check(Case(make=make, epochs=[[PROBE], [PROBE.slice(0, 0)], [PROBE.slice(3, 4)]]))


@pytest.mark.parametrize("join", ["inner", "left"])
@pytest.mark.parametrize("kind", ["arrow", "file"])
def test_matches_come_in_the_tables_order(kind: str, join: str, root: Path, instance: Instance) -> None:
    with closing(open_kind(kind, TABLE, ["a"], ["b", "v"], root=root, instance=instance)) as index:
        joined = tuples(list(joining(index, PROBE.schema, ["k"], join=join).run([stream(PROBE)])))
    assert joined == naive_join(PROBE, TABLE, [("k", "a")], ["b", "v"], left=join == "left")


def test_matches_of_a_database_come_in_the_order_of_their_values(root: Path, instance: Instance) -> None:
    with closing(open_kind("sql", TABLE, ["a"], ["v", "b"], root=root, instance=instance)) as index:
        matches = index.lookup(pa.record_batch({"k0": pa.array([1, 3], pa.int64())}))
    assert matches.rows.tolist() == [0, 0, 0, 1, 1]
    assert tuples([matches.columns]) == [(1, "y"), (6, "y"), (None, ""), (2, "x"), (7, "x")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_may_be_given_back_in_place_of_other_columns(kind: str, root: Path, instance: Instance) -> None:
    with closing(open_kind(kind, TABLE, ["a", "b"], ["b", "a"], root=root, instance=instance)) as index:
        matches = index.lookup(pa.record_batch({"k0": pa.array([3, 2], pa.int64()), "k1": ["x", "x"]}))
    assert tuples([matches.columns]) == [("x", 3), ("x", 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_table_matches_nothing(kind: str, root: Path, instance: Instance) -> None:
    with closing(open_kind(kind, TABLE.slice(0, 0), ["b"], ["v"], root=root, instance=instance)) as index:
        matches = index.lookup(pa.record_batch({"k0": ["x", "y"]}))
    assert (matches.rows.tolist(), matches.columns.num_rows, matches.columns.schema) == ([], 0, index.schema)


NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3))
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, st.integers(0, 5)), max_size=30)


def as_table(rows: list[tuple[int | None, str | None, int]], names: tuple[str, str, str]) -> pa.Table:
    types = (pa.int64(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names=names)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=tries(15), deadline=None)
@given(
    probe=ROWS,
    rows=ROWS,
    keys=st.sampled_from([["a"], ["b"], ["b", "a"]]),
    join=st.sampled_from(["inner", "left"]),
    batch_rows=st.integers(1, 8),
    prefetch=st.integers(0, 4),
)
def test_a_join_is_the_one_of_sql(kind, probe, rows, keys, join, batch_rows, prefetch, instance, root) -> None:  # type: ignore[no-untyped-def]
    left, right = as_table(probe, ("pa", "pb", "pv")), as_table(rows, ("a", "b", "v"))
    with tempfile.TemporaryDirectory(dir=root) as folder:
        index = open_kind(kind, right, keys, ["a", "b", "v"], root=Path(folder), instance=instance)
        operator = joining(
            index, left.schema, [f"p{key}" for key in keys], join=join, batch_rows=batch_rows, prefetch=prefetch
        )
        joined = tuples(list(operator.run([stream(left, 3)])))
        operator.close()
    on = " AND ".join(f"l.p{key} = r.{key}" for key in keys)
    with oracle({"l": left, "r": right}) as connection:
        expected = connection.sql(f"SELECT * FROM l {join} JOIN r ON {on}").fetchall()
    pairs = [(f"p{key}", key) for key in keys]
    in_order = naive_join(left, right, pairs, ["a", "b", "v"], left=join == "left")
    assert sorted(map(repr, joined)) == sorted(map(repr, expected))
    assert [row[:3] for row in joined] == [row[:3] for row in in_order]
    if kind != "sql":
        assert joined == in_order


@pytest.mark.parametrize("kind", KINDS)
def test_look_ups_on_many_threads_give_the_same_rows(kind: str, root: Path, instance: Instance) -> None:
    keys = pa.table({"k": [n % 7 for n in range(300)]})
    threads = SideThreads()
    runs = []
    for prefetch in (0, 1, 4, 16, 256):
        index = open_kind(kind, TABLE, ["a"], ["v", "b"], root=root, instance=instance)
        operator = joining(
            index, keys.schema, ["k"], batch_rows=7, prefetch=prefetch, submit=threads.queue(prefetch + 1).submit
        )
        runs += [tuples(list(operator.run([stream(keys)]))) for _ in range(2)]
        operator.close()
    threads.close()
    assert len(runs[0]) == len(naive_join(keys, TABLE, [("k", "a")], ["v"], left=False))
    assert all(rows == runs[0] for rows in runs)


@pytest.mark.parametrize("kind", ["arrow", "file"])
def test_zeros_are_equal_and_so_are_nans(kind: str, root: Path, instance: Instance) -> None:
    table = pa.table({"x": [0.0, -0.0, math.nan, 1.0], "n": range(4)})
    with closing(open_kind(kind, table, ["x"], ["n"], root=root, instance=instance)) as index:
        matches = index.lookup(pa.record_batch({"k0": [-0.0, math.nan, 2.0]}))
    assert (matches.rows.tolist(), tuples([matches.columns])) == ([0, 0, 1], [(0,), (1,), (2,)])

"""Merge joins of random inputs, however they are cut: every type against a nested loop in Python, and against DuckDB.

The nested loop says which rows come in which order; DuckDB, another's reading of SQL, says which rows come at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.core.key_rows import Holding
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.operators.merge_join import JoinKey, MergeJoin
from tidegate.operators.merging import key_group as group
from tidegate.operators.merging import key_ranges as ranges
from tidegate.operators.merging import pieces, sorted_input
from tidegate.operators.merging.kinds import Comparison, MergeJoinType
from tidegate.operators.merging.pair_filter import PairCondition
from tidegate.proto.errors import ExecutionError

from ..searching import tries
from .naive_join import Row, TwoMatches, naive_join, sorted_rows

SIDE = pa.schema([("k", pa.int32()), ("s", pa.string()), ("v", pa.int64())])
WIDTHS = (3, 3)
SINGLE = {MergeJoinType.LEFT_SINGLE, MergeJoinType.RIGHT_SINGLE}
SQL_JOINS = {
    MergeJoinType.INNER: "JOIN",
    MergeJoinType.OUTER: "FULL JOIN",
    MergeJoinType.LEFT: "LEFT JOIN",
    MergeJoinType.RIGHT: "RIGHT JOIN",
    MergeJoinType.LEFT_SEMI: "SEMI JOIN",
    MergeJoinType.LEFT_ANTI: "ANTI JOIN",
}

rows = st.lists(
    st.tuples(
        st.sampled_from([None, -(2**31), -1, 0, 1, 2**31 - 1]),  # far apart and next to each other
        st.one_of(st.none(), st.sampled_from(["", "a", "a\0", "b"])),
        st.one_of(st.none(), st.integers(0, 3)),
    ),
    max_size=14,
)
comparisons = st.sampled_from(Comparison)
keys = st.lists(
    st.builds(JoinKey, left=st.just(0), right=st.just(0), descending=st.booleans(), nulls_first=st.booleans(),
              comparison=comparisons),
    min_size=1, max_size=1,
).flatmap(lambda first: st.one_of(st.just(first), second_keys.map(lambda second: [*first, second])))  # fmt: skip
second_keys = st.builds(
    JoinKey,
    left=st.just(1),
    right=st.just(1),
    descending=st.booleans(),
    nulls_first=st.booleans(),
    comparison=comparisons,
)
cuts = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    opened = Instance(InstanceSettings(memory_limit=1 << 28), str(tmp_path_factory.mktemp("spill")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that groups of a few rows are large ones."""
    for module in (group, ranges, sorted_input):
        monkeypatch.setattr(module, "BLOCK_ROWS", 5)
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 100)


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SIDE.names, row, strict=True)) for row in rows], schema=SIDE)


def cut(rows: pa.Table, sizes: Sequence[int]) -> BatchStream:
    """The rows in batches of these sizes, empty ones too, in turns."""
    batches, at, turn = [], 0, 0
    while at < rows.num_rows:
        size = sizes[turn % len(sizes)] or (0 if any(sizes) else 1)
        part = rows.slice(at, size).combine_chunks().to_batches()
        batches += part or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        at, turn = at + size, turn + 1
    return BatchStream(rows.schema, batches)


def output_schema(type_: MergeJoinType) -> pa.Schema:
    left = [pa.field(f"l{field.name}", field.type) for field in SIDE]
    right = [pa.field(f"r{field.name}", field.type) for field in SIDE]
    match type_:
        case MergeJoinType.LEFT_SEMI | MergeJoinType.LEFT_ANTI:
            return pa.schema(left)
        case MergeJoinType.RIGHT_SEMI | MergeJoinType.RIGHT_ANTI:
            return pa.schema(right)
        case _:
            return pa.schema([*left, *right])


def joined(operator: MergeJoin, *streams: BatchStream) -> list[Row]:
    return [tuple(row.values()) for batch in operator.run(streams) for row in batch.to_pylist()]


def sql_join(
    connection: duckdb.DuckDBPyConnection,
    left: pa.Table,
    right: pa.Table,
    keys: Sequence[JoinKey],
    type_: MergeJoinType,
    on: str,
) -> list[Row]:
    if type_ in (MergeJoinType.RIGHT_SEMI, MergeJoinType.RIGHT_ANTI):
        one, other, keyword = "r", "l", SQL_JOINS[MergeJoinType(type_.value.replace("right", "left"))]
    else:
        one, other, keyword = "l", "r", SQL_JOINS[type_]
    signs = {Comparison.EQUAL: "=", Comparison.NOT_DISTINCT: "IS NOT DISTINCT FROM"}
    names = SIDE.names
    equal = [f"l.{names[key.left]} {signs[key.comparison]} r.{names[key.right]}" for key in keys]
    connection.register("l", left)
    connection.register("r", right)
    return connection.sql(f"SELECT * FROM {one} {keyword} {other} ON {' AND '.join([*equal, on])}").fetchall()


@pytest.mark.parametrize("filtered", [False, True], ids=["keys alone", "with a condition"])
@pytest.mark.parametrize("type_", MergeJoinType)
@settings(max_examples=tries(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=rows, right=rows, keys=keys, left_cut=cuts, right_cut=cuts, memory=st.sampled_from([0, 1 << 20]))
def test_every_type_gives_the_rows_of_a_nested_loop_in_their_order(
    type_: MergeJoinType,
    filtered: bool,
    left: list[Row],
    right: list[Row],
    keys: list[JoinKey],
    left_cut: list[int],
    right_cut: list[int],
    memory: int,
    instance: Instance,
    oracle: duckdb.DuckDBPyConnection,
    tmp_path: Path,
) -> None:
    left, right = sorted_rows(left, keys, "left"), sorted_rows(right, keys, "right")
    operator = MergeJoin(
        left=SIDE,
        right=SIDE,
        keys=keys,
        type=type_,
        schema=output_schema(type_),
        holding=Holding(memory_limit=memory, folder=tmp_path / "held"),
        condition=PairCondition(sql="c2 <= c5", reads=frozenset({2, 5})) if filtered else None,
        instance=instance,
    )
    try:
        streams = cut(table(left), left_cut), cut(table(right), right_cut)
        try:
            expected = naive_join(left, right, keys, type_, WIDTHS, not_more if filtered else always)
        except TwoMatches:
            with pytest.raises(ExecutionError, match="matches more than one row"):
                joined(operator, *streams)
            return
        assert joined(operator, *streams) == expected
    finally:
        operator.close()
    assert not list((tmp_path / "held").glob("*")), "a spilled group was left behind"
    if type_ not in SINGLE:
        sql_rows = sql_join(oracle, table(left), table(right), keys, type_, "l.v <= r.v" if filtered else "true")
        assert Counter(sql_rows) == Counter(expected)


def not_more(left: Row, right: Row) -> bool | None:
    return None if left[2] is None or right[2] is None else left[2] <= right[2]


def always(left: Row, right: Row) -> bool:
    return True


FLOATS = [-math.inf, -1.5, -0.0, 0.0, 1e-300, 2.5, math.inf, math.nan, None]


@given(
    left=st.lists(st.sampled_from(FLOATS)),
    right=st.lists(st.sampled_from(FLOATS)),
    descending=st.booleans(),
    nulls_first=st.booleans(),
    left_cut=cuts,
    right_cut=cuts,
)
@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_floats_are_equal_and_ordered_as_in_sql(
    type_: pa.DataType,
    left: list[Any],
    right: list[Any],
    descending: bool,
    nulls_first: bool,
    left_cut: list[int],
    right_cut: list[int],
    tmp_path: Path,
) -> None:
    keys = [JoinKey(left=0, right=0, descending=descending, nulls_first=nulls_first)]
    one, two = (sorted_rows([(value,) for value in values], keys, "left") for values in (left, right))
    side = pa.schema([("x", type_)])
    first, second = (pa.table({"x": pa.array([row[0] for row in part], type_)}) for part in (one, two))
    operator = MergeJoin(
        left=side,
        right=side,
        keys=keys,
        type=MergeJoinType.OUTER,
        schema=pa.schema([("l", type_), ("r", type_)]),
        holding=Holding(memory_limit=1 << 20, folder=tmp_path),
    )
    one, two = ([(row[0].as_py(),) for row in zip(part["x"], strict=True)] for part in (first, second))
    expected = naive_join(one, two, keys, MergeJoinType.OUTER, (1, 1))
    assert repr(joined(operator, cut(first, left_cut), cut(second, right_cut))) == repr(expected)

"""Rows grouped by slice and whole numbers, against groups in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.digest import digest
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.slices import dense_slices
from tidegate.operators.slices.dense_slices import DenseSlices, GroupsOfSlices, WholeGroups
from tidegate.operators.slices.group_positions import GroupKey
from tidegate.operators.slices.group_totals import GroupState

from ..searching import tries

Row = tuple[Any, ...]
ROWS: Final = pa.schema(
    [pa.field("n", pa.int64(), False), ("k", pa.int32()), ("v", pa.int64()), ("w", pa.int8()), ("c", pa.bool_())]
)
OUT: Final = pa.schema(
    [
        pa.field("n", pa.int64(), False),
        ("k", pa.int32()),
        ("sum", pa.decimal128(38, 0)),
        ("rows", pa.int64()),
        ("count", pa.int64()),
        ("least", pa.int8()),
        ("greatest", pa.int64()),
    ]
)
STATES: Final = (
    GroupState(function="sum", values=2, condition=None),
    GroupState(function="count", values=None, condition=None),
    GroupState(function="count", values=2, condition=4),
    GroupState(function="min", values=3, condition=None),
    GroupState(function="max", values=2, condition=4),
)
GROUPS: Final = """
    SELECT c0, c1, CAST(sum(c2) AS DECIMAL(38, 0)), count(*), count(c2) FILTER (WHERE c4), min(c3),
        max(c2) FILTER (WHERE c4)
    FROM in0 GROUP BY (c0, c1)
"""
ZEROS: Final = pa.record_batch([pa.array([0] * 1_000).cast(type_) for type_ in ROWS.types], schema=ROWS)


def dense(instance: Instance) -> DenseSlices:
    groups = GroupsOfSlices(keys=(GroupKey(column=0), GroupKey(column=1)), states=STATES, groups=GROUPS)
    return DenseSlices(ROWS, groups=groups, schema=OUT, size_class=1_000, instance=instance)


WHOLE: Final = pa.schema([*[*OUT][:2], ("mean", pa.float64()), *[*OUT][3:]])
TOTAL: Final = """
    SELECT c0, c1, sum(c2) / sum(c3), CAST(sum(c3) AS BIGINT), CAST(sum(c4) AS BIGINT), min(c5), max(c6)
    FROM in0 GROUP BY (c0, c1)
"""
"""The total of the values by the number of rows; the other measures are their states."""


def whole(instance: Instance, *, plain: bool = True) -> DenseSlices:
    """Whole groups: their measures are their states if they are `plain`."""
    sums = pa.schema([*[*OUT][:2], ("sum", pa.int64()), *[*OUT][3:]])
    aggregate = (
        GROUPS.replace("DECIMAL(38, 0)", "BIGINT")
        if plain
        else GROUPS.replace("CAST(sum(c2) AS DECIMAL(38, 0))", "sum(c2) / count(*)")
    )
    total = TOTAL.replace("sum(c2) / sum(c3)", "CAST(sum(c2) AS BIGINT)") if plain else TOTAL
    statements = WholeGroups(
        states=OUT,
        aggregate=aggregate,
        ordered=f"{aggregate} ORDER BY 1 NULLS FIRST, 2 NULLS FIRST",
        total=f"{total} ORDER BY 1 NULLS FIRST, 2 NULLS FIRST",
        values=None if plain else "SELECT c0, c1, c2 / c3, c3, c4, c5, c6 FROM in0",
    )
    groups = GroupsOfSlices(
        keys=(GroupKey(column=0), GroupKey(column=1)), states=STATES, groups=GROUPS, whole=statements
    )
    return DenseSlices(ROWS, groups=groups, schema=sums if plain else WHOLE, size_class=1_000, instance=instance)


def run(operator: DenseSlices, rows: Sequence[Row], at_once: int = 1_000) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(ROWS)
    table = pa.table([pa.array(column, type_) for column, type_ in zip(columns, ROWS.types, strict=True)], schema=ROWS)
    try:
        stream = BatchStream(ROWS, table.to_batches(max_chunksize=at_once))
        return pa.Table.from_batches(operator.run([stream]), operator.schema)
    finally:
        operator.close()


def naive(rows: Sequence[Row]) -> dict[Row, Row]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[:2]].append(row)
    return {key: _states(own) for key, own in groups.items()}


def _states(rows: Sequence[Row]) -> Row:
    values = [row[2] for row in rows if row[2] is not None]
    some = [row[2] for row in rows if row[2] is not None and row[4]]
    least = [row[3] for row in rows if row[3] is not None]
    return sum(values) if values else None, len(rows), len(some), min(least, default=None), max(some, default=None)


def joined(table: pa.Table) -> dict[Row, Row]:
    """The groups, of which the states of several rows are joined."""
    parts: dict[Row, list[Row]] = defaultdict(list)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        parts[row[:2]].append(row[2:])
    return {key: _joined(own) for key, own in parts.items()}


def _joined(parts: Sequence[Row]) -> Row:
    sums, rows, counts, least, greatest = zip(*parts, strict=True)
    known = [int(one) for one in sums if one is not None]
    return (
        sum(known) if known else None,
        sum(rows),
        sum(counts),
        min((one for one in least if one is not None), default=None),
        max((one for one in greatest if one is not None), default=None),
    )


ROW: Final = st.tuples(
    st.integers(-20, 20),
    st.none() | st.integers(-3, 9),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9),
    st.none() | st.integers(-128, 127),
    st.none() | st.booleans(),
)


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, max_size=60))
@example([(0, None, 1, None, True), (0, None, None, 5, None)])
@example([(2**63 - 1, 2**31 - 1, 1, 1, True), (-(2**63), -(2**31), 1, 1, True)])
def test_groups_have_the_states_of_their_rows(warm: Instance, rows: list[Row]) -> None:
    assert joined(run(dense(warm), rows)) == naive(rows)


@pytest.mark.parametrize("room", [1, 50, 3_000])
def test_groups_that_the_arrays_have_no_room_for(warm: Instance, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 slices and 13 keys: none of them, some slices at a time, all."""
    monkeypatch.setattr(dense_slices, "_MOST_PLACES", room)
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 100)
    rows = [(at // 100, at % 3 + (at // 3_000) * 10, at, at % 11, at % 2 == 0) for at in range(4_000)]
    answer = run(dense(warm), rows)
    assert joined(answer) == naive(rows)


def test_the_order_of_groups_does_not_depend_on_batches(warm: Instance) -> None:
    rows = [(at * 37 % 211, at % 13, at, at % 7, True) for at in range(2_000)]
    digests = {digest(OUT, iter(run(dense(warm), rows, at_once).to_batches())) for at_once in (1, 7, 1_000, 2_000)}
    assert len(digests) == 1


def test_a_sum_may_be_larger_than_64_bits(warm: Instance) -> None:
    rows = [(0, 1, 2**62, 1, True)] * 10
    assert run(dense(warm), rows)["sum"].to_pylist() == [Decimal(10 * 2**62)]


@pytest.mark.parametrize("step", [1, 37, -37], ids=["slowly", "by more than there were", "downwards"])
def test_keys_that_go_on_growing_get_places(warm: Instance, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 50)
    rows = [(at // 400, None if at % 17 == 0 else at // 50 * step + at % 9, at, at % 7, True) for at in range(2_000)]
    operator = dense(warm)
    monkeypatch.setattr(operator._in_duckdb, "run", lambda _: pytest.fail("DuckDB groups rows"))
    answer = run(operator, rows)
    assert joined(answer) == naive(rows)
    assert answer.num_rows == len(naive(rows))


UNSIGNED: Final = pa.schema([pa.field("n", pa.int64(), False), ("v", pa.uint64())])
EXTREMES: Final = pa.schema([*[*UNSIGNED][:1], ("least", pa.uint64()), ("greatest", pa.uint64())])


@pytest.mark.parametrize("far", [2**63 - 1, 2**63, 2**64 - 1])
def test_the_least_and_the_greatest_of_values_without_a_sign(warm: Instance, far: int) -> None:
    groups = GroupsOfSlices(
        keys=(GroupKey(column=0),),
        states=tuple(GroupState(function=function, values=1, condition=None) for function in ("min", "max")),
        groups="SELECT c0, min(c1), max(c1) FROM in0 GROUP BY c0",
    )
    operator = DenseSlices(UNSIGNED, groups=groups, schema=EXTREMES, size_class=1_000, instance=warm)
    rows = pa.record_batch([pa.array([0, 0, 1]), pa.array([3, far, None], pa.uint64())], schema=UNSIGNED)
    try:
        answer = pa.Table.from_batches(operator.run([BatchStream(UNSIGNED, [rows])]), EXTREMES)
    finally:
        operator.close()
    assert sorted(answer.to_pylist(), key=lambda row: row["n"]) == [
        {"n": 0, "least": 3, "greatest": far},
        {"n": 1, "least": None, "greatest": None},
    ]


NEAR: Final = ROW.filter(lambda row: row[2] is None or abs(row[2]) < 2**40)


@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NEAR, max_size=60))
@example([(0, None, 1, None, True), (0, None, None, 5, None)])
@example([(2**63 - 1, 2**31 - 1, 1, 1, True), (-(2**63), -(2**31), 1, 1, True)])
def test_whole_groups_have_one_row_each(warm: Instance, rows: list[Row]) -> None:
    assert rows_of(run(whole(warm), rows)) == naive(rows)


def rows_of(table: pa.Table) -> dict[Row, Row]:
    """The groups, each of which has one row."""
    groups = {row[:2]: row[2:] for row in zip(*(column.to_pylist() for column in table.columns), strict=True)}
    assert len(groups) == table.num_rows
    return groups


@pytest.mark.parametrize("plain", [True, False], ids=["states", "made of states"])
@pytest.mark.parametrize("room", [1, 50, 3_000])
def test_whole_groups_that_the_arrays_have_no_room_for(
    warm: Instance, room: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them, some slices at a time, all: also where a group's rows are far apart."""
    monkeypatch.setattr(dense_slices, "_MOST_PLACES", room)
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 100)
    rows = [(at // 100 % 30, at % 3 + (at // 3_000) * 10, at, at % 11, at % 2 == 0) for at in range(4_000)]
    answer = rows_of(run(whole(warm, plain=plain), rows))
    expected = naive(rows)
    assert answer == (expected if plain else {key: (own[0] / own[1], *own[1:]) for key, own in expected.items()})


def test_duckdb_groups_all_rows_whose_first_ones_the_arrays_have_no_room_for(
    warm: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It groups them once."""
    operator = whole(warm)
    for unused in (operator._in_duckdb, operator._total):
        monkeypatch.setattr(unused, "run", lambda _: pytest.fail("rows are grouped in parts"))
    rows = [(at % 3 * 2**40, at % 5 * 2**20, at, 1, True) for at in range(2_000)]
    assert rows_of(run(operator, rows)) == naive(rows)


@pytest.mark.parametrize("room", [300, 1 << 23])
def test_the_order_of_whole_groups_does_not_depend_on_batches(
    warm: Instance, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_slices, "_MOST_PLACES", room)
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 100)
    rows = [(at // 50, at % 13, at, at % 7, True) for at in range(2_000)]
    tables = [run(whole(warm), rows, at_once) for at_once in (1, 7, 1_000, 2_000)]
    assert all(table.equals(tables[0]) for table in tables)


@pytest.mark.parametrize("plain", [True, False], ids=["states", "made of states"])
def test_the_order_of_whole_groups_does_not_depend_on_memory(
    warm: Instance, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them in arrays, some, all."""
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 100)
    rows = [(at // 50 * 7 % 40, None if at % 13 == 5 else at % 13 - 6, at, at % 7, True) for at in range(2_000)]
    tables = []
    for room in (0, 60, 300, dense_slices._MOST_PLACES):
        operator = whole(warm, plain=plain)
        operator._places = room
        tables.append(run(operator, rows))
    assert all(table.equals(tables[0]) for table in tables)


@pytest.mark.parametrize("plain", [True, False], ids=["states", "made of states"])
def test_whole_groups_come_by_their_keys_where_their_sums_are_large(warm: Instance, plain: bool) -> None:
    """DuckDB adds them up."""
    rows = [(at * 7 % 40 - 20, at * 5 % 13 - 6, 2**50, 1, True) for at in range(50_000)]
    answer = run(whole(warm, plain=plain), rows, len(rows))
    keys = list(zip(answer.column(0).to_pylist(), answer.column(1).to_pylist(), strict=True))
    assert keys == sorted(set(keys))


def test_places_for_keys_that_never_came_are_given_up_for_those_that_do(
    warm: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys go on growing a little, and get places for more of them. Then slices need these places."""
    monkeypatch.setattr(dense_slices, "_MOST_PLACES", 2_100)
    monkeypatch.setattr(dense_slices, "BLOCK_ROWS", 50)
    rows = [(at // 500, None if at % 17 == 0 else min(at // 50, 20) + at % 77, at, 1, True) for at in range(9_000)]
    operator = whole(warm)
    monkeypatch.setattr(operator._total, "run", lambda _: pytest.fail("DuckDB joins parts"))
    assert rows_of(run(operator, rows)) == naive(rows)


TICKS: Final = {
    pa.date32(): "(c0 - DATE '1970-01-01')",
    pa.timestamp("us", "UTC"): "epoch_us(c0)",
    pa.timestamp("ns"): "epoch_ns(c0)",
    pa.int16(): "c0",
    pa.int64(): "c0",
}
"""Types of times, and a time's units in DuckDB."""


@pytest.mark.parametrize("type_", TICKS, ids=str)
@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    times=st.lists(st.none() | st.integers(-(2**15), 2**15 - 1) | st.integers(-9, 9), max_size=40),
    size=st.integers(1, 70),
    origin=st.integers(-100, 100),
)
def test_slices_of_a_column_of_times_are_numbered(
    warm: Instance, type_: pa.DataType, times: list[int | None], size: int, origin: int
) -> None:
    """Rows without a time are in no slice."""
    assert sliced(warm, type_, times, size, origin) == Counter(
        (time - origin) // size for time in times if time is not None
    )


@pytest.mark.parametrize("farthest", [2**63 - 1, -(2**63), 2**62 - 5])
def test_duckdb_numbers_the_slices_of_times_that_are_far_away(warm: Instance, farthest: int) -> None:
    assert sliced(warm, pa.int64(), [3, farthest], 10, 0) == {0: 1, farthest // 10: 1}


def sliced(warm: Instance, type_: pa.DataType, times: list[int | None], size: int, origin: int) -> dict[int, int]:
    """The number of rows in each slice."""
    words = pa.int32() if type_.bit_width == 32 else pa.int64()
    column = pa.array(times, type_) if pa.types.is_integer(type_) else pa.array(times, words).cast(type_)
    rows = pa.record_batch([column], names=["t"])
    number = f"({TICKS[type_]} - {origin})"
    out = pa.schema([pa.field("n", pa.int64(), False), ("rows", pa.int64())])
    groups = GroupsOfSlices(
        keys=(GroupKey(column=0, size=size, origin=origin),),
        states=(GroupState(function="count", values=None, condition=None),),
        groups=f"SELECT {number} // {size} - CAST({number} % {size} < 0 AS BIGINT), count(*) FROM in0 GROUP BY 1",
    )
    operator = DenseSlices(rows.schema, groups=groups, schema=out, size_class=100, instance=warm)
    try:
        table = pa.Table.from_batches(operator.run([BatchStream(rows.schema, [rows])]), out)
    finally:
        operator.close()
    return dict(zip(table["n"].to_pylist(), table["rows"].to_pylist(), strict=True))

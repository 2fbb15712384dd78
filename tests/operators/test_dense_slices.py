"""Rows grouped by slice and whole numbers, against groups in plain Python."""

from __future__ import annotations

from collections import defaultdict
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
from tidegate.operators.slices.dense_groups import GroupState
from tidegate.operators.slices.dense_slices import DenseSlices, GroupsOfSlices

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
    groups = GroupsOfSlices(keys=2, states=STATES, groups=GROUPS)
    return DenseSlices(ROWS, groups=groups, schema=OUT, size_class=1_000, instance=instance)


def run(operator: DenseSlices, rows: Sequence[Row], at_once: int = 1_000) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(ROWS)
    table = pa.table([pa.array(column, type_) for column, type_ in zip(columns, ROWS.types, strict=True)], schema=ROWS)
    try:
        stream = BatchStream(ROWS, table.to_batches(max_chunksize=at_once))
        return pa.Table.from_batches(operator.run([stream]), OUT)
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

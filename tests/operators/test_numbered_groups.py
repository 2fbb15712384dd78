"""Groups by texts and bytes, which are numbered, beside groups in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.slices import numbered_groups
from tidegate.operators.slices.group_positions import GroupKey
from tidegate.operators.slices.group_totals import GroupState
from tidegate.operators.slices.numbered_groups import NumberedGroups

from ..searching import tries

KEYS = (GroupKey(column=0), GroupKey(column=1, numbered=True), GroupKey(column=3, numbered=True))
STATES = (GroupState(function="sum", values=2, condition=None), GroupState(function="count", values=2, condition=None))
ROWS = pa.schema([("n", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("b", pa.binary())])
OUT = pa.schema([("n", pa.int64()), ("k", pa.string()), ("b", pa.binary()), ("s", pa.int64()), ("c", pa.int64())])

Row = tuple[Any, ...]


def block(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [pa.array(column, type_) for column, type_ in zip(zip(*rows, strict=True), ROWS.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def groups(dense: NumberedGroups) -> list[Row]:
    table = pa.Table.from_batches(dense.take(OUT), OUT)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def naive(rows: Sequence[Row]) -> list[Row]:
    """The groups by the first key, then the others in the order of their first rows, nulls first."""
    orders: list[dict[Any, int]] = [{None: -1}, {None: -1}]
    own: dict[Row, list[int]] = {}
    for number, text, value, data in rows:
        for order, key in zip(orders, (text, data), strict=True):
            order.setdefault(key, len(order))
        own.setdefault((number, text, data), []).append(value)
    ordered = sorted(own, key=lambda key: (key[0], orders[0][key[1]], orders[1][key[2]]))
    return [(*key, sum(own[key]), len(own[key])) for key in ordered]


@settings(max_examples=tries(60))
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(-3, 3),
                st.none() | st.sampled_from(["", "a", "A", "é", "a\0", "long " * 9]),
                st.integers(-9, 9),
                st.none() | st.sampled_from([b"", b"\0", b"x"]),
            ),
            min_size=1,
            max_size=9,
        ),
        max_size=6,
    )
)
def test_groups_are_those_of_rows(blocks: list[list[Row]]) -> None:
    dense = NumberedGroups(KEYS, STATES, 100_000)
    assert all(dense.add(block(rows)) for rows in blocks)
    assert groups(dense) == naive([row for rows in blocks for row in rows])


@pytest.mark.parametrize(("limit", "most"), [("_MOST_VALUES", 3), ("_MOST_BYTES", 100)])
def test_rows_with_too_many_values_are_not_counted(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(numbered_groups, limit, most)
    dense = NumberedGroups(KEYS, STATES, 100_000)
    few = [(0, "a", 1, b""), (0, None, 2, b""), (1, "b", 3, None)]
    assert dense.add(block(few))
    assert not dense.add(block([(0, key * 99, 1, b"") for key in "abcd"]))
    assert dense.add(block(few))
    assert groups(dense) == naive(few + few)


def test_values_keep_their_numbers_when_groups_are_taken() -> None:
    rows = [(at % 3, f"key {at * 7 % 10}", at, b"x") for at in range(50)]
    dense = NumberedGroups(KEYS, STATES, 100_000)
    taken = []
    for begin in range(0, len(rows), 10):
        assert dense.add(block(rows[begin : begin + 10]))
        if begin == 20:
            taken = groups(dense)
    assert taken == naive(rows[:30])
    assert sorted(groups(dense)) == sorted(naive(rows[30:]))

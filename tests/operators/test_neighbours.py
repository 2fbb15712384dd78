"""Equal neighbours, against Python's own comparison of values."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays.neighbours import differ, starts

D = decimal.Decimal
NAN = float("nan")
DAY = dt.date(2024, 1, 1)
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)

#: For each type two different values; the first one twice where it has two ways to be written.
VALUES: dict[pa.DataType, list[object]] = {
    pa.bool_(): [True, False],
    pa.int8(): [1, 2],
    pa.uint64(): [2**64 - 1, 2**64 - 2],
    pa.int64(): [2**53, 2**53 + 1],
    pa.decimal128(38, 2): [D("1.10"), D("1.11")],
    pa.string(): ["a", "A"],
    pa.large_string(): ["a", ""],
    pa.string_view(): ["a long one that is not inlined", "a long one that is not inlinee"],
    pa.binary(): [b"\0", b""],
    pa.binary(2): [b"ab", b"ac"],
    pa.date32(): [DAY, DAY + dt.timedelta(1)],
    pa.time64("us"): [dt.time(1), dt.time(2)],
    pa.timestamp("us"): [NOON, NOON + dt.timedelta(microseconds=1)],
    pa.timestamp("us", tz="UTC"): [NOON, NOON + dt.timedelta(microseconds=1)],
    pa.duration("us"): [dt.timedelta(1), dt.timedelta(2)],
    pa.uuid(): [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b"],
    pa.list_(pa.int64()): [[1, None], [1]],
    pa.large_list(pa.string()): [["a"], ["b"]],
    pa.list_view(pa.string()): [["a"], ["b"]],
    pa.list_(pa.int64(), 2): [[1, None], [1, 2]],
    pa.struct([("x", pa.int64()), ("y", pa.string())]): [{"x": 1, "y": None}, {"x": None, "y": None}],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], [("a", 2)]],
    pa.list_(pa.list_(pa.float64())): [[[0.0], []], [[], [0.0]]],
}


def equal(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_every_type_has_equal_and_different_values_and_nulls(type_: pa.DataType) -> None:
    one, other = VALUES[type_]
    column = pa.array([None, one, one, other, None, None, one], type_)
    assert starts([column], None).tolist() == [0, 1, 3, 4, 6]
    assert starts([column[2:]], [column[1:2]]).tolist() == [1, 2, 4]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_nan_is_nan_and_zero_has_no_sign(type_: pa.DataType) -> None:
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    column = pa.array([NAN, other_nan, None, 0.0, -0.0, 1.5], type_, from_pandas=False)
    assert starts([column], None).tolist() == [0, 2, 3, 5]


def test_a_month_has_thirty_days() -> None:
    column = pa.array([(1, 0, 0), (0, 30, 0), (0, 29, 86_400_000_000_000), (0, 30, 1)], pa.month_day_nano_interval())
    assert starts([column], None).tolist() == [0, 3]


def test_all_nulls_of_no_type_are_one_run() -> None:
    assert starts([pa.nulls(3)], None).tolist() == [0]


def test_a_run_ends_where_any_column_changes() -> None:
    assert starts([pa.array([1, 1, 2, 2]), pa.array(["a", "b", "b", "b"])], None).tolist() == [0, 1, 2]


def test_dictionaries_compare_by_value() -> None:
    first = pa.DictionaryArray.from_arrays([0, 1], ["a", "a"])
    second = pa.DictionaryArray.from_arrays([1, 0], ["b", "a"])
    assert differ(first, second).tolist() == [False, True]


ITEMS = st.none() | st.lists(st.none() | st.sampled_from([0.0, -0.0, NAN, 1.0]), max_size=2)


@given(st.lists(ITEMS, min_size=1, max_size=12), st.integers(0, 3), st.sampled_from([pa.list_, pa.large_list]))
def test_lists_compare_as_python_compares_them(rows: list[list[float | None] | None], cut: int, kind: object) -> None:
    column = pa.array(rows, kind(pa.float64()))[cut:]  # type: ignore[operator]
    rows = rows[cut:]
    expected = [i for i in range(len(rows)) if i == 0 or not equal(rows[i], rows[i - 1])]
    assert starts([column], None).tolist() == expected


@given(st.lists(st.none() | st.tuples(st.none() | st.integers(0, 1), st.none() | st.text("ab", max_size=1))))
def test_structs_compare_as_python_compares_them(rows: list[tuple[object, object] | None]) -> None:
    type_ = pa.struct([("x", pa.int64()), ("y", pa.string())])
    column = pa.array([None if row is None else dict(zip("xy", row, strict=True)) for row in rows], type_)
    expected = [i for i in range(len(rows)) if i == 0 or rows[i] != rows[i - 1]]
    assert starts([column], None).tolist() == expected

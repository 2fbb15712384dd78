"""Slices of times that are numbered without SQL are those of whole numbers that are divided and rounded down."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.sliced_rows import SlicedRows

from ...searching import tries

FAR = 1 << 60


@settings(max_examples=tries(100), deadline=None)
@given(
    times=st.lists(st.integers(-FAR, FAR), min_size=1),
    size=st.integers(1, 100) | st.integers(1, FAR),
    origin=st.integers(-FAR, FAR) | st.just(0),
)
def test_a_slice_is_the_time_since_the_origin_by_the_size(times: list[int], size: int, origin: int) -> None:
    rows = Rows.of_arrays([pa.array(["row"] * len(times)), pa.array(times, pa.timestamp("us"))], len(times))
    sliced = SlicedRows(column=1, size=size, origin=origin, output=(None, 0)).of(rows)
    assert sliced is not None
    numbers, texts = sliced.to_arrays([pa.int64(), pa.string()])
    assert numbers.to_pylist() == [(time - origin) // size for time in times]
    assert texts.to_pylist() == ["row"] * len(times)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1, None], pa.timestamp("us")),
        pa.array([1, (1 << 63) - 1], pa.timestamp("us")),
        pa.array([1, -(1 << 63) + 1], pa.timestamp("us")),
        pa.array([(1 << 31) - 1], pa.int32()).view(pa.date32()),
        pa.array([-(1 << 31) + 1], pa.int32()).view(pa.date32()),
        pa.array([1 << 63], pa.uint64()),
        pa.array([1.5]),
        pa.array([], pa.int64()),
    ],
)
def test_times_that_are_null_infinite_or_far_are_left_to_sql(times: pa.Array) -> None:
    assert SlicedRows(column=0, size=60, origin=0, output=(None,)).of(Rows.of_arrays([times], len(times))) is None


def test_dates_and_narrow_integers_are_sliced_too() -> None:
    for times in (pa.array([date(1969, 12, 31), date(1970, 1, 8)]), pa.array([-1, 7], pa.int16())):
        sliced = SlicedRows(column=0, size=7, origin=0, output=(None,)).of(Rows.of_arrays([times], 2))
        assert sliced is not None
        assert sliced.columns[0].to_arrow(pa.int64()).to_pylist() == [-1, 1]

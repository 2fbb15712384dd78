"""Moments at which slices begin, computed without SQL, are whole numbers times the size behind the origin."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.sliced_rows import SliceStart, SliceStarts

from ...searching import tries

FAR = 1 << 60
FARTHEST = 1 << 62


@settings(max_examples=tries(100), deadline=None)
@given(
    numbers=st.lists(st.integers(-FAR, FAR) | st.integers(-100, 100), min_size=1),
    size=st.integers(1, 100) | st.integers(1, FAR),
    origin=st.integers(-FAR, FAR) | st.just(0),
)
def test_a_slice_begins_its_number_of_sizes_behind_the_origin(numbers: list[int], size: int, origin: int) -> None:
    rows = Rows.of_arrays([pa.array(["row"] * len(numbers)), pa.array(numbers)], len(numbers))
    start = SliceStart(column=1, size=size, origin=origin, farthest=FARTHEST, bits=64)
    started = SliceStarts((start, 0)).of(rows)
    moments = [number * size + origin for number in numbers]
    if any(abs(moment) > FARTHEST for moment in moments):
        assert started is None, "left to SQL"
    else:
        assert started is not None
        begun, texts = started.to_arrays([pa.timestamp("us"), pa.string()])
        assert begun.cast(pa.int64()).to_pylist() == moments
        assert texts.to_pylist() == ["row"] * len(numbers)


@pytest.mark.parametrize("numbers", [pa.array([1, None]), pa.array([], pa.int64()), pa.array([1.5])])
def test_numbers_that_are_null_or_missing_are_left_to_sql(numbers: pa.Array) -> None:
    start = SliceStart(column=0, size=60, origin=0, farthest=FARTHEST, bits=64)
    assert SliceStarts((start,)).of(Rows.of_arrays([numbers], len(numbers))) is None


def test_narrow_moments_have_the_width_of_their_type() -> None:
    rows = Rows.of_arrays([pa.array([-1, 1])], 2)
    week = SliceStart(column=0, size=7, origin=0, farthest=2**31 - 3, bits=32)
    byte = SliceStart(column=0, size=60, origin=7, farthest=127, bits=8)
    started = SliceStarts((week, byte)).of(rows)
    assert started is not None
    dates, bytes_ = started.to_arrays([pa.date32(), pa.int8()])
    assert dates.to_pylist() == [date(1969, 12, 25), date(1970, 1, 8)]
    assert bytes_.to_pylist() == [-53, 67]
    assert SliceStarts((byte,)).of(Rows.of_arrays([pa.array([1, 3])], 2)) is None

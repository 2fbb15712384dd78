"""Columns in the types that Spark expects: a null where Spark's type allows none is refused, and no other one is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate.proto.errors import ExecutionError
from tidegate.proto.spark_frames import in_type_of_spark

NULLABLE = pa.struct({"a": pa.int64()})
REQUIRED = pa.struct([pa.field("a", pa.int64(), nullable=False)])
GOOD, BAD = {"a": 1}, {"a": None}

TYPES: dict[str, tuple[pa.DataType, pa.DataType, Any, Any]] = {
    "struct": (NULLABLE, REQUIRED, GOOD, BAD),
    "struct in a list": (pa.list_(NULLABLE), pa.list_(REQUIRED), [GOOD, None], [GOOD, BAD]),
    "struct in a struct": (pa.struct({"s": NULLABLE}), pa.struct({"s": REQUIRED}), {"s": GOOD}, {"s": BAD}),
    "value of a map": (pa.map_("string", NULLABLE), pa.map_("string", REQUIRED), [("k", GOOD)], [("k", BAD)]),
    "key of a map": (pa.map_(NULLABLE, "int64"), pa.map_(REQUIRED, "int64"), [(GOOD, 1)], [(BAD, 1)]),
    "list in a struct": (
        pa.struct({"s": pa.list_(pa.int64())}),
        pa.struct({"s": pa.list_(pa.field("element", pa.int64(), nullable=False))}),
        {"s": [1]},
        {"s": [1, None]},
    ),
}


@pytest.fixture(params=TYPES.values(), ids=TYPES.keys())
def inside(request: pytest.FixtureRequest) -> tuple[pa.DataType, pa.Field, Any, Any]:
    """A type, a field of which a value inside allows no null, and a value without such a null and one with it."""
    type_, required, good, bad = request.param
    return type_, pa.field("c", required), good, bad


def test_a_null_inside_of_a_value_is_an_error_that_names_the_column(
    inside: tuple[pa.DataType, pa.Field, Any, Any],
) -> None:
    type_, field, good, bad = inside
    read = in_type_of_spark(pa.array([good, None], type_), field)
    read.validate(full=True)
    assert read.type == field.type
    assert read.to_pylist() == [good, None]
    with pytest.raises(ExecutionError, match="column 'c' has nulls") as error:
        in_type_of_spark(pa.array([good, bad], type_), field)
    assert error.value.reason == "NULL_IN_REQUIRED_COLUMN"


def test_a_null_in_rows_that_are_cut_off_does_not_count(inside: tuple[pa.DataType, pa.Field, Any, Any]) -> None:
    type_, field, good, bad = inside
    rows = pa.array([bad, good, None, good, bad], type_)
    assert in_type_of_spark(rows.slice(1, 3), field).to_pylist() == [good, None, good]
    assert in_type_of_spark(rows.slice(1, 0), field).to_pylist() == []


def test_a_null_below_a_null_does_not_count() -> None:
    below = pa.StructArray.from_arrays([pa.array([1, None])], fields=list(NULLABLE), mask=pa.array([False, True]))
    rows = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), below)
    assert in_type_of_spark(rows, pa.field("c", pa.list_(REQUIRED))).to_pylist() == [[GOOD], [None]]

"""Required fields below a null: what Parquet, whose writer looks at each level for itself, is given."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tidegate.operators.arrays.retype import NullInside, retype
from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.proto.errors import ExecutionError


def required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


NUMBER = pa.struct([required("a", pa.int64())])
TYPES = {
    "a struct": (NUMBER, {"a": 1}),
    "beside a column that may be null": (pa.struct([required("a", pa.string()), ("b", pa.int64())]), {"a": "x"}),
    "a struct in a struct": (pa.struct([required("s", NUMBER)]), {"s": {"a": 1}}),
    "a list in a struct": (pa.struct([required("l", pa.list_(required("item", pa.bool_())))]), {"l": [True, False]}),
    "structs in a list": (pa.list_(NUMBER), [{"a": 1}, None, {"a": 3}]),
}


def written(column: pa.Array) -> pa.Array:
    schema = pa.schema([pa.field("c", column.type)])
    sink = io.BytesIO()
    writer = WRITE_FORMATS["parquet"].open(sink, schema)
    writer.write(pa.record_batch([column], schema=schema))
    writer.close()
    return pq.read_table(sink)["c"]


@pytest.mark.parametrize("case", TYPES)
def test_a_null_that_a_join_has_put_there_hides_what_is_required_below_it(case: str) -> None:
    """Rows without a match are taken from nowhere, and then all fields of theirs are null."""
    type_, value = TYPES[case]
    column = pc.take(pa.array([value], type_), pa.array([0, None, 0, None, None]))
    for part in column, column.slice(1, 3), column.slice(3):
        assert written(part).to_pylist() == part.to_pylist()
        assert retype(part, type_).type == type_


def test_a_required_field_that_is_null_below_no_null_is_told_by_its_row() -> None:
    column = pa.StructArray.from_arrays([pa.array([1, None, 3])], fields=list(NUMBER))
    with pytest.raises(ExecutionError, match=r"column 'c': a required value inside the column is null in row 1"):
        written(column)


def hidden_items(lists: pa.DataType, items: pa.Array) -> pa.Array:
    """Three lists, of which the second is null although it has an item."""
    offsets = pa.array([0, 1, 2, 3], pa.int64() if pa.types.is_large_list(lists) else pa.int32())
    valid = pa.array([True, False, True]).buffers()[1]
    return pa.Array.from_buffers(lists, 3, [valid, offsets.buffers()[1]], 1, children=[items])


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_what_is_required_may_be_null_in_items_that_no_list_has(kind: Callable[[pa.DataType], pa.DataType]) -> None:
    items = pa.StructArray.from_arrays([pa.array([1, None, 3])], fields=list(NUMBER))
    lists = hidden_items(kind(NUMBER), items)
    for part in lists, lists.slice(1), lists.slice(2):
        again = retype(part, lists.type)
        assert again.to_pylist() == part.to_pylist()
        assert not again.flatten().field(0).null_count


def test_a_null_in_a_list_of_structs_is_told_by_the_row_of_its_list() -> None:
    column = pa.array([[{"a": 1}, {"a": 2}], None, [], [{"a": 3}, {"a": None}]])
    with pytest.raises(NullInside, match="row 3"):
        retype(column, pa.list_(NUMBER))


@pytest.mark.parametrize("row", [0, 2])
def test_a_null_in_a_map_of_structs_is_told_by_the_row_of_its_map(row: int) -> None:
    entries = [[("x", {"a": 1}), ("y", {"a": 2})], None, [("x", {"a": 3}), ("y", {"a": 4})]]
    entries[row][1][1]["a"] = None  # type: ignore[index]  # a list, not None
    column = pa.array(entries, pa.map_(pa.string(), pa.struct([("a", pa.int64())])))
    with pytest.raises(NullInside, match=f"row {row}"):
        retype(column, pa.map_(pa.string(), NUMBER))


def test_what_is_required_may_be_null_in_entries_that_no_map_has() -> None:
    type_ = pa.map_(pa.string(), NUMBER)
    values = pa.StructArray.from_arrays([pa.array([1, None, 3])], fields=list(NUMBER))
    entries = pa.StructArray.from_arrays(
        [pa.array(["x", "y", "z"]), values], fields=[type_.key_field, type_.item_field]
    )
    maps = hidden_items(type_, entries)
    for part in maps, maps.slice(1), maps.slice(2):
        again = retype(part, type_)
        assert again.to_pylist() == part.to_pylist()
        assert not again.items.field(0).null_count


DAYS = required("item", pa.date32())


@pytest.mark.parametrize(
    "type_",
    [pa.list_(DAYS), pa.large_list(DAYS), pa.list_(DAYS, 2), pa.map_(pa.int64(), required("value", pa.date32()))],
)
def test_a_null_item_is_found_beside_values_that_python_does_not_have(type_: pa.DataType) -> None:
    far = pa.array([2**31 - 1, -(2**31), 5, None, 7, 8], pa.int32()).cast(pa.date32())
    rows = lists_of_two(type_, far)
    for part, row in (rows, 1), (rows.slice(1), 0):
        with pytest.raises(NullInside, match=f"row {row}"):
            retype(part, type_)
    for part in rows.slice(0, 1), rows.slice(2):
        assert retype(part, type_).equals(part)


def lists_of_two(type_: pa.DataType, items: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_list(type_):
        return pa.Array.from_buffers(type_, 3, [None], 0, children=[items])
    starts = pa.array([0, 2, 4, 6], pa.int64() if pa.types.is_large_list(type_) else pa.int32()).buffers()[1]
    if pa.types.is_map(type_):
        items = pa.StructArray.from_arrays([pa.array(range(6)), items], fields=[type_.key_field, type_.item_field])
    return pa.Array.from_buffers(type_, 3, [None, starts], 0, children=[items])

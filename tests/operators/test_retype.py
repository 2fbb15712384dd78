"""Required fields below a null: what Parquet, whose writer looks at each level for itself, is given."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tidegate.operators.arrays.retype import retype
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

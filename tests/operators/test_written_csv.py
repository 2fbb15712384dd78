"""Class of bug: a table in CSV has a text that no reader takes for the value that was written."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.csv
import pytest

from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.proto.errors import ExecutionError

FIRST_DAY = -719_528
"""The days from 1970 to the year 0."""
LAST_DAY = 2_932_896
TYPES = [pa.date32(), *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "UTC"))]


def written(type_: pa.DataType, *values: int) -> list[int]:
    """The numbers behind moments, written and read again."""
    schema = pa.schema([("t", type_)])
    sink = io.BytesIO()
    writer = WRITE_FORMATS["csv"].open(sink, schema)
    writer.write(pa.record_batch([pa.array(values, storage(type_)).view(type_)], schema=schema))
    writer.close()
    options = pa.csv.ConvertOptions(column_types=schema)
    column = pa.csv.read_csv(io.BytesIO(sink.getvalue()), convert_options=options)["t"].combine_chunks()
    numbers: list[int] = column.view(storage(type_)).to_pylist()
    return numbers


def storage(type_: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(type_) else pa.int64()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_moments_of_years_of_four_digits_come_back_and_others_are_refused(type_: pa.DataType) -> None:
    day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6}[type_.unit] if isinstance(type_, pa.TimestampType) else 1
    first, last = FIRST_DAY * day, (LAST_DAY + 1) * day - 1
    assert written(type_, first, 0, last) == [first, 0, last]
    for outside in (first - 1, last + 1, 10 * last, 10 * first):
        with pytest.raises(ExecutionError, match=r"column 't' has a moment outside of the years 0 to 9999") as error:
            written(type_, 0, outside)
        assert error.value.reason == "WRITE_FAILED"

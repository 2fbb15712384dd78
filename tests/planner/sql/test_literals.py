"""Literals: every value comes back from DuckDB as it went in."""

import decimal
import math

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.duckdb.conform import Conform
from tidegate.planner.ir import types as t
from tidegate.planner.ir.arrow_types import UnsupportedType, arrow_type, schema, sql_type
from tidegate.planner.sql.literal_sql import literal

CONNECTION = duckdb.connect(config={"threads": 1})
CONNECTION.execute("SET TimeZone = 'UTC'")

DAY = 86_400


def returned(value, type_):
    rows = CONNECTION.sql(f"SELECT {literal(value, type_)} AS x").to_arrow_table()
    conform = Conform(pa.schema([("x", arrow_type(type_))]), "here")
    return pa.chunked_array([conform(batch).column(0) for batch in rows.to_batches()])


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_text_is_quoted(value):
    assert returned(value, t.String()).to_pylist() == [value]


@given(st.binary())
def test_any_bytes_come_back(value):
    assert returned(value, t.Binary()).to_pylist() == [value]


@given(st.floats())
def test_any_float_comes_back_bit_for_bit(value):
    (returned_float,) = returned(value, t.Float(bits=64)).to_pylist()
    assert (math.isnan(returned_float) and math.isnan(value)) or (returned_float, math.copysign(1, returned_float)) == (
        value,
        math.copysign(1, value),
    )


@given(st.data(), st.sampled_from([8, 16, 32, 64]), st.booleans())
def test_any_integer_comes_back(data, bits, signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    value = data.draw(st.integers(low, high))
    assert returned(value, t.Integer(bits=bits, signed=signed)).to_pylist() == [value]


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_any_decimal_comes_back(digits, scale):
    value = decimal.Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -scale))
    assert returned(value, t.Decimal(precision=38, scale=scale)).to_pylist() == [value]


@given(st.integers(-60_000 * DAY, 60_000 * DAY), st.integers(0, 9), st.sampled_from([t.Timestamp, t.TimestampTz]))
def test_any_timestamp_comes_back_in_its_own_unit(seconds, precision, kind):
    type_ = kind(precision=precision)
    value = seconds * 10**precision + (seconds * 7) % 10**precision
    returned_array = returned(value, type_)
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[returned_array.type.unit]
    assert returned_array.cast(pa.int64()).to_pylist() == [value * 10 ** (digits - precision)]


def test_nested_values_come_back_under_the_plans_names():
    type_ = t.Struct(
        fields=(t.Integer(bits=32), t.List(element=t.Struct(fields=(t.String(),), names=('a "b"',)))),
        names=("x y", "select"),
    )
    (value,) = returned((1, (("u",), None)), type_).to_pylist()
    assert value == {"x y": 1, "select": [{'a "b"': "u"}, None]}


@pytest.mark.parametrize(
    "type_",
    [
        t.Boolean(),
        t.Decimal(precision=10, scale=3),
        t.Date(),
        t.Uuid(),
        t.List(element=t.Date()),
        t.Map(key=t.String(), value=t.Date()),
        t.Struct(fields=(t.Date(), t.String())),
    ],
)
def test_a_null_is_of_its_type(type_):
    relation = CONNECTION.sql(f"SELECT {literal(None, type_)} AS x")
    assert relation.types == [duckdb.type(sql_type(type_))]
    assert relation.to_arrow_table().column(0).null_count == 1


@pytest.mark.parametrize(
    "type_",
    [
        t.Timestamp(precision=12),
        t.Time(precision=10),
        t.IntervalDay(precision=9),
        t.Decimal(precision=39, scale=0),
        t.List(element=t.Timestamp(precision=12)),
    ],
)
def test_a_type_that_cannot_be_carried_is_refused_by_name(type_):
    refused = type_.element if isinstance(type_, t.List) else type_
    for of in (arrow_type, sql_type):
        with pytest.raises(UnsupportedType) as caught:
            of(type_)
        assert str(refused) in str(caught.value)


def test_a_plans_schema_takes_its_names_depth_first():
    inner = t.Struct(fields=(t.Date(nullable=False), t.String()))
    arrow_schema = schema([t.Integer(bits=64, nullable=False), t.List(element=inner)], ["id", "visits", "day", "place"])
    struct = pa.struct([pa.field("day", pa.date32(), nullable=False), pa.field("place", pa.string())])
    assert arrow_schema == pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("visits", pa.list_(struct))])

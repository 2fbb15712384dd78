"""Schemas that Spark reads a result with: they have columns and fields of the result, in types of the same values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tidegate.proto.errors import Refused
from tidegate.spark.data_source.read_columns import check_columns

CODED = pa.struct({"value": pa.binary(), "metadata": pa.binary(), "srid": pa.int32(), "wkb": pa.binary()})
RESULT = pa.schema(
    {
        "k": pa.int64(),
        "v": pa.float64(),
        "r": pa.float32(),
        "d": pa.decimal128(9, 2),
        "b": pa.bool_(),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("ns", "UTC"),
        "w": pa.string(),
        "u": pa.binary(16),
        "s": pa.struct({"a": pa.int64(), "b": pa.list_(pa.struct({"x": pa.string()}))}),
        "m": pa.map_(pa.string(), pa.float64()),
        "c": CODED,
        "l": pa.list_(CODED),
    }
)


def test_a_query_that_reads_some_columns_of_a_table_learns_that_spark_reads_all_of_them() -> None:
    """As `SELECT k FROM name WITH (columns = 'k')` does: Spark asks for the columns that CREATE TABLE found."""
    table = StructType([StructField("k", LongType()), StructField("n", LongType())])
    with pytest.raises(Refused, match=r"'n', .*; WITH \(columns = ...\) can leave out no column of a table"):
        check_columns(table, pa.schema({"k": pa.int64()}))


@pytest.mark.usefixtures("spark")  # parses schemas
@pytest.mark.parametrize(
    "schema",
    [
        "k BIGINT NOT NULL, v DOUBLE, w STRING, b BOOLEAN, u BINARY",
        "w STRING, k INT",
        "k DECIMAL(20, 2), d DECIMAL(4, 1), r DOUBLE",
        "t TIMESTAMP_NTZ, z TIMESTAMP",
        "s STRUCT<b: ARRAY<STRUCT<x: STRING NOT NULL>>, a: INT>",
        "s STRUCT<a: BIGINT>, m MAP<STRING, DOUBLE>",
    ],
)
def test_columns_and_fields_of_a_result_can_be_read_in_types_that_hold_their_values(schema: str) -> None:
    check_columns(StructType.fromDDL(schema), RESULT)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("k BIGINT, x BIGINT", "x"),
        ("s STRUCT<a: BIGINT, x: BIGINT>", "s"),
        ("s STRUCT<b: ARRAY<STRUCT<y: STRING>>>", "s"),
        ("v FLOAT", "v"),
        ("v DECIMAL(9, 2)", "v"),
        ("k BOOLEAN", "k"),
        ("b INT", "b"),
        ("t TIMESTAMP", "t"),
        ("z TIMESTAMP_NTZ", "z"),
        ("t DATE", "t"),
        ("k TIMESTAMP", "k"),
        ("w BINARY", "w"),
        ("w BIGINT", "w"),
        ("k ARRAY<BIGINT>", "k"),
        ("s ARRAY<BIGINT>", "s"),
        ("s MAP<STRING, BIGINT>", "s"),
        ("m MAP<STRING, FLOAT>", "m"),
        ("m STRUCT<a: BIGINT>", "m"),
        ("k VOID", "k"),
        ("k VOID NOT NULL", "k"),
        ("k INTERVAL YEAR TO MONTH", "k"),
        ("w CHAR(3)", "w"),
        ("w VARCHAR(3)", "w"),
        ("v VARIANT", "v"),
        ("c VARIANT", "c"),
        ("l ARRAY<VARIANT>", "l"),
        ("c GEOMETRY(4326)", "c"),
    ],
)
def test_a_schema_that_would_read_other_values_is_refused_by_the_name_of_its_column(schema: str, column: str) -> None:
    with pytest.raises(Refused, match=f"Spark reads (a )?column {column!r}") as refused:
        check_columns(StructType.fromDDL(schema), RESULT)
    assert refused.value.reason == "RESULT_CHANGED"


@pytest.mark.usefixtures("spark")
def test_a_schema_that_names_a_column_twice_is_refused_by_its_name() -> None:
    with pytest.raises(Refused, match="column 'k' twice") as refused:
        check_columns(StructType.fromDDL("k BIGINT, v DOUBLE, k BIGINT"), RESULT)
    assert refused.value.reason == "UNSUPPORTED_COLUMN"

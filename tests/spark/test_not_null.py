"""Columns that Spark reads as NOT NULL, because the plan or the reader says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from google.protobuf.json_format import MessageToJson
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.errors import ExecutionError, InvalidRequest
from tidegate.spark.data_source.datasource import TidegateSource

from ..server.running import remote_client

PLAN = MessageToJson(sub.read_named_table("rows", {"k": sub.i64, "v": sub.fp64}).select("k", "v").to_plan())
WITHOUT = pa.table({"k": [1, 2], "v": [0.5, 1.5]})
WITH = pa.table({"k": [1, 2], "v": [0.5, None]})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with remote_client(PlanEngine(["/"], tmp_path_factory.mktemp("served"))) as opened:
        yield opened


def source_of(client: Client, folder: Path, rows: pa.Table, **options: str) -> TidegateSource:
    pq.write_table(rows, folder / "rows.parquet")
    return TidegateSource({"server": str(client.address), "plan": PLAN, "table.rows": str(folder), **options})


def read(source: TidegateSource) -> pa.Table:
    reader = source.reader(source.schema())
    return pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])


def struct(*, k: bool, v: bool) -> StructType:
    return StructType([StructField("k", LongType(), k), StructField("v", DoubleType(), v)])


@pytest.mark.parametrize(
    ("named", "schema"),
    [("*", struct(k=False, v=False)), ("v", struct(k=True, v=False)), (" v , k", struct(k=False, v=False))],
)
def test_columns_that_the_reader_names_are_not_null_and_keep_their_values(
    client: Client, tmp_path: Path, named: str, schema: StructType
) -> None:
    source = source_of(client, tmp_path, WITHOUT, notNull=named)
    assert source.schema() == schema
    assert read(source).to_pydict() == WITHOUT.to_pydict()


@pytest.mark.parametrize("rows", [WITHOUT, WITH], ids=["files without nulls", "files with nulls"])
def test_the_schema_is_the_plans_whatever_the_files_have(client: Client, tmp_path: Path, rows: pa.Table) -> None:
    source = source_of(client, tmp_path, rows)
    assert source.schema() == struct(k=True, v=True)
    assert read(source).to_pydict() == rows.to_pydict()


def test_a_null_in_a_column_that_the_reader_names_is_an_error_that_names_the_column(
    client: Client, tmp_path: Path
) -> None:
    assert read(source_of(client, tmp_path, WITH, notNull="k")).to_pydict() == WITH.to_pydict()
    with pytest.raises(ExecutionError, match=r"column 'v' has nulls.*notNull") as error:
        read(source_of(client, tmp_path, WITH, notNull="*"))
    assert error.value.reason == "NULL_IN_REQUIRED_COLUMN"


def test_a_null_that_comes_after_spark_has_asked_for_the_schema_is_an_error(client: Client, tmp_path: Path) -> None:
    source = source_of(client, tmp_path, WITHOUT, notNull="*")
    schema = source.schema()
    pq.write_table(WITH, tmp_path / "more.parquet")
    reader = source.reader(schema)
    with pytest.raises(ExecutionError, match="column 'v' has nulls"):
        [list(reader.read(part)) for part in reader.partitions()]


@pytest.mark.parametrize(("named", "columns"), [("other", None), ("v", "k"), ("", None)])
def test_a_column_that_is_not_read_cannot_be_named(
    client: Client, tmp_path: Path, named: str, columns: str | None
) -> None:
    source = source_of(client, tmp_path, WITHOUT, notNull=named, **({} if columns is None else {"columns": columns}))
    with pytest.raises(InvalidRequest, match=f"names a column {named!r}, which is not read; there are: k") as error:
        source.schema()
    assert error.value.reason == "MISSING_COLUMN"


def test_the_columns_of_an_epoch_can_be_not_null(client: Client) -> None:
    with client.create_task(PLAN) as task:
        task.add_split("rows", WITHOUT)
        task.request_barrier()
        source = TidegateSource({"server": str(client.address), "task": task.id, "epoch": "1", "notNull": "k"})
        assert source.schema() == struct(k=False, v=True)
        assert read(source).to_pydict() == WITHOUT.to_pydict()


@pytest.mark.parametrize(("rows", "count"), [(WITHOUT, 0), (WITH, 1)])
def test_tables_of_sparks_catalog_count_nulls_rightly_or_fail_by_name(
    spark: SparkSession, client: Client, tmp_path: Path, rows: pa.Table, count: int
) -> None:
    file, plan = tmp_path / "rows.parquet", tmp_path / "plan.json"
    pq.write_table(rows, file)
    plan.write_text(PLAN)
    tidegate.spark.register(spark)
    options = f"server '{client.address}', plan '{plan}', `table.rows` '{file}'"
    for name, promise in (("kept", ""), ("promised", ", notNull '*'")):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(f"CREATE TABLE {name} USING tidegate OPTIONS ({options}{promise})")
    try:
        nulls = "SELECT count(*) AS n FROM {} WHERE v IS NULL"
        assert spark.sql(nulls.format("kept")).collect() == [(count,)]
        if count:
            with pytest.raises(Exception, match="column 'v' has nulls"):
                spark.sql("SELECT * FROM promised").collect()
        else:
            assert not any(field.nullable for field in spark.table("promised").schema)
            assert spark.table("promised").toArrow().to_pydict() == rows.to_pydict()
    finally:
        for name in ("kept", "promised"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")

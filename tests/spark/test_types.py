"""Types are exact, by each way; what is not is refused with the column named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from substrait.proto import Plan

import tidegate
from tidegate.client import Client
from tidegate.spark import feed, query
from tidegate.training import Loader, Shuffle

from .conftest import handed_on, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: For each type of Spark that is fed: an expression, and the type that a plan has for it.
FED = {
    "boolean": ("id % 2 = 0", sub.boolean),
    "tinyint": ("cast(id - 2 AS tinyint)", sub.i8),
    "smallint": ("cast(id * -300 AS smallint)", sub.i16),
    "int": ("cast(id * 100000 AS int)", sub.i32),
    "bigint": ("id * 10000000000", sub.i64),
    "float": ("cast(id / 3 AS float)", sub.fp32),
    "double": ("id / 7D", sub.fp64),
    "decimal": ("cast(id AS decimal(38, 10)) / 3", sub.decimal(10, 38)),
    "string": ("concat('é', id)", sub.string),
    "binary": ("unhex(concat('00ff0', id))", sub.binary),
    "date": ("date_add(DATE'1400-02-28', cast(id AS int))", sub.date),
    "timestamp": ("timestamp_micros(id * 1234567890123 - 9000000000000000)", sub.precision_timestamp_tz(6)),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'1500-01-01 00:00:00.123456' + make_dt_interval(cast(id AS int))",
        sub.precision_timestamp(6),
    ),
    "array": ("array(id, null, -id)", sub.list_(sub.i64())),
    "map": ("map(concat('k', id), id)", sub.map_(sub.string(), sub.i64())),
}


def columns() -> dict[str, object]:
    return {name: type_ for name, (_, type_) in FED.items()}


def test_a_sorted_frame_feeds_a_training_loader(spark: SparkSession, remote: Client) -> None:
    frame = spark.range(20).selectExpr("19 - id AS n").orderBy("n")
    options: dict[str, Any] = {"batch_size": 6, "shuffle": Shuffle(2), "prefetch": 0}
    plan = sub.read_named_table("rows", {"n": sub.i64}).to_plan()
    whole = Loader(remote, plan, {"rows": frame}, **options)
    batches, states = zip(*((batch["n"].tolist(), whole.state_dict()) for batch in whole), strict=True)
    plain = Loader(remote, plan, {"rows": pa.table({"n": range(20)})}, **options)
    assert list(batches) == [batch["n"].tolist() for batch in plain]
    resumed = Loader(remote, plan, {"rows": spark.range(20).selectExpr("id AS n").orderBy("n")}, **options)
    resumed.load_state_dict(states[1])
    assert [batch["n"].tolist() for batch in resumed] == list(batches[2:])


def test_a_frame_is_taken_where_arrow_data_is_taken(spark: SparkSession, client: Client) -> None:
    frame = spark.range(20).selectExpr("id AS n", "timestamp_micros(id * 1000) AS t").orderBy("id")
    plan = handed_on({"n": sub.i64, "t": sub.precision_timestamp_tz(6)})
    graph = tidegate.TaskGraph()
    graph.collect(graph.read_arrow(frame))
    taken = [
        client.query(plan, {"rows": tidegate.MissingAsNull(frame)}),
        client.dataset(frame).table(),
        client.run_graph(graph).table(),
    ]
    assert [table.to_pydict() for table in taken] == [frame.toArrow().to_pydict()] * 3


@dataclass
class OfPandas:
    """Stands for a DataFrame of pandas-on-Spark, which PySpark 4.3 does not import beside pandas 3."""

    frame: DataFrame

    def to_spark(self) -> DataFrame:
        """Without the index."""
        return self.frame.drop("__index_level_0__")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.toArrow().__arrow_c_stream__(requested_schema)


def test_a_frame_of_pandas_on_spark_is_taken_without_its_index(spark: SparkSession, client: Client) -> None:
    frame = OfPandas(spark.range(3).selectExpr("id AS __index_level_0__", "id AS k", "id * 2 AS v"))
    plan = handed_on()
    with client.create_task(plan) as task:
        feed(frame, task, "rows")
        fed = rows_of(task)
    tables = [client.query(plan, {"rows": frame}), client.dataset(frame).table()]
    answers = [tidegate.spark.query(plan, {"rows": frame}), tidegate.spark.sql("SELECT * FROM rows", rows=frame)]
    expected = [{"k": k, "v": 2 * k} for k in range(3)]
    assert [fed, *(table.to_pylist() for table in tables)] == [expected] * 3
    assert [sorted(answer.toArrow().to_pylist(), key=lambda row: row["k"]) for answer in answers] == [expected] * 2


def test_what_is_no_dataframe_is_refused(client: Client) -> None:
    with client.create_task(handed_on()) as task:
        for call in (
            lambda: feed(7, task, "rows"),
            lambda: tidegate.spark.stream("/a/path", task, "rows"),
            lambda: tidegate.spark.query(handed_on(), {"rows": "/a/path"}),
            lambda: tidegate.spark.sql("SELECT * FROM rows", rows=pa.table({"k": [1]})),
        ):
            with pytest.raises(
                tidegate.InvalidRequest, match=r"must be a Spark DataFrame.*, not (int|str|Table)"
            ) as no:
                call()
            assert no.value.reason == "NOT_A_FRAME"


@pytest.mark.parametrize("how", ["staged", "pushed"])
def test_values_of_every_type_are_those_that_spark_collects(
    spark: SparkSession, remote: Client, tmp_path: Path, how: str
) -> None:
    expressions = [f"{expression} AS `{name}`" for name, (expression, _) in FED.items()]
    frame = spark.range(5).selectExpr(*expressions).select(*columns())
    task = remote.create_task(handed_on(columns()))
    feed(frame, task, "rows", how=how, staging=tmp_path)
    task.request_barrier()
    received, spoken = task.read_epoch(), frame.toArrow()
    assert [column.to_pylist() for column in received.columns] == [
        column.cast(field.type).to_pylist() for column, field in zip(spoken.columns, received.schema, strict=True)
    ]


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("null", "has type void, which cannot be fed: its values are all null"),
        ("INTERVAL '3' DAY", "cast the column to a number of units"),
        ("INTERVAL '3' MONTH", "cast the column to a number of units"),
        ("parse_json('1')", "only Spark can read this type"),
        ("array(parse_json('1'))", "column 'k.element'"),
        ("named_struct('a', map(1, null))", "column 'k.a.value'"),
        ("'a' COLLATE UTF8_LCASE", "under its collation some different texts are equal"),
        ("'a'", "column 'k' is string in the DataFrame and int64 in source 'rows'"),
        ("1.5D", "column 'k' is double in the DataFrame and int64 in source 'rows'"),
        ("1.5BD", r"column 'k' is decimal\(2,1\) in the DataFrame and int64"),
    ],
)
def test_what_has_no_exact_type_is_refused_with_its_column(
    spark: SparkSession, client: Client, expression: str, sentence: str
) -> None:
    task = client.create_task(handed_on({"k": sub.i64}))
    with pytest.raises(tidegate.InvalidRequest, match=sentence) as refused:
        feed(spark.range(1).selectExpr(f"{expression} AS k"), task, "rows")
    assert refused.value.reason == "COLUMN_TYPE"


def test_a_column_that_the_plan_does_not_read_may_have_any_type(spark: SparkSession, client: Client) -> None:
    task = client.create_task(handed_on({"k": sub.i64}))
    assert feed(spark.range(3).selectExpr("id AS k", "parse_json('1') AS j"), task, "rows").rows == 3


def test_a_narrower_type_is_widened(spark: SparkSession, client: Client) -> None:
    task = client.create_task(handed_on({"k": sub.i64, "v": sub.fp64}))
    feed(spark.range(3).selectExpr("cast(id AS int) AS K", "cast(id AS float) AS v"), task, "rows")
    task.request_barrier()
    assert task.read_epoch().to_pydict() == {"k": [0, 1, 2], "v": [0.0, 1.0, 2.0]}


def test_a_name_may_have_dots_and_spaces_and_quotes(spark: SparkSession, remote: Client) -> None:
    names = ("a.b", "c d", "e`f", "a")
    frame = spark.range(1).selectExpr(*[f"id + {at} AS `{name.replace('`', '``')}`" for at, name in enumerate(names)])
    plan = handed_on(dict.fromkeys(names, sub.i64))
    with remote.create_task(plan) as task:
        assert feed(frame, task, "rows", how="pushed", order_by="a.b").rows == 1
        pushed = rows_of(task)
    expected = dict(zip(names, range(4), strict=True))
    assert [pushed, query(plan, {"rows": frame}).toArrow().to_pylist()] == [[expected]] * 2


def test_two_columns_of_one_name_are_refused(spark: SparkSession, client: Client) -> None:
    task = client.create_task(handed_on({"k": sub.i64}))
    with pytest.raises(tidegate.InvalidRequest, match="column 'k' could be any of") as refused:
        feed(spark.range(3).selectExpr("id AS k", "id AS K"), task, "rows")
    assert refused.value.reason == "AMBIGUOUS_COLUMN"


def test_two_fields_of_one_name_are_refused(spark: SparkSession, client: Client) -> None:
    task = client.create_task(handed_on({"k": sub.i64}))
    with pytest.raises(tidegate.InvalidRequest, match=r"'k.element' of the DataFrame has several fields") as refused:
        feed(spark.range(3).selectExpr("array(named_struct('a', 1, 'a', 2)) AS k"), task, "rows")
    assert refused.value.reason == "AMBIGUOUS_COLUMN"


def nested() -> bytes:
    """A plan that answers with `m map<string, array<struct<x: int>>>`. The builder names no fields of structs."""
    plan = Plan.FromString(handed_on({"m": sub.map_(sub.string(), sub.list_(sub.struct([sub.i32()])))}))
    root = plan.relations[0].root
    root.names.append("x")
    root.input.project.input.read.base_schema.names.append("x")
    return bytes(plan.SerializeToString())


@pytest.mark.parametrize("rows", [2, 0])
def test_a_null_may_stand_in_place_of_a_struct_whose_fields_are_not_null(
    spark: SparkSession, remote: Client, rows: int
) -> None:
    frame = spark.range(rows).selectExpr("map('p', array(named_struct('x', 1), null)) AS m").coalesce(1)
    plan, wanted = nested(), frame.collect()
    with remote.create_task(plan) as task:
        feed(frame, task, "rows", how="pushed")
        task.request_barrier()
        assert task.read_epoch()["m"].to_pylist() == [[("p", [{"x": 1}, None])]] * rows
    assert tidegate.spark.query(plan, {"rows": frame}).collect() == wanted
    assert tidegate.spark.query(plan, {"rows": frame}, client=remote).collect() == wanted


def test_a_plan_over_dataframes_answers_with_a_dataframe(spark: SparkSession) -> None:
    left, right = (sub.read_named_table(name, {"k": sub.i64, "v": sub.i64}) for name in ("l", "r"))
    joined = left.join(right.select(sub.col("k").alias("j"), sub.col("v").alias("w")), on=sub.col("k") == sub.col("j"))
    plan = joined.select("k", "v", "w").to_plan().SerializeToString()
    frames = {name: spark.range(10).selectExpr("id AS k", f"id * {by} AS v") for name, by in (("l", 2), ("r", 3))}
    answer = query(plan, frames)
    expected = frames["l"].alias("l").join(frames["r"].alias("r"), "k").selectExpr("k", "l.v", "r.v AS w")
    assert answer.schema.names == ["k", "v", "w"]
    assert sorted(answer.collect()) == sorted(expected.collect())
    assert answer.toArrow().schema.types == [pa.int64()] * 3

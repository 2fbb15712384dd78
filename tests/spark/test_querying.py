"""`query` and `sql`: a plan, or a query, over DataFrames, whose answer is a DataFrame."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tidegate
import tidegate.spark

from ..executor import plans
from ..on_channels import on_channels
from .conftest import Write, handed_on


@pytest.fixture(params=["UTC", "America/New_York"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", request.param)
    return session


def test_timestamps_with_and_without_a_time_zone_stay_what_they_are(session: SparkSession) -> None:
    plan = handed_on({"n": sub.precision_timestamp(6), "z": sub.precision_timestamp_tz(6)})
    frame = session.sql("SELECT timestamp_ntz'2024-03-10 02:30:00' AS n, timestamp'2024-03-10 12:30:00 UTC' AS z")
    answer = tidegate.spark.query(plan, {"rows": frame})
    assert answer.dtypes == [("n", "timestamp_ntz"), ("z", "timestamp")]
    assert answer.collect() == frame.collect()


SALES = (
    "SELECT id AS k, id % 3 AS Shop, cast(id * 10 AS decimal(9, 2)) AS amount, date'2024-01-01' AS day FROM range(20)"
)
SHOPS = "SELECT id AS Shop, if(id = 2, null, concat('shop ', id)) AS name FROM range(3)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Shop, sum(amount) AS total, count(*) AS n FROM sales GROUP BY Shop",
        "SELECT s.k, t.name FROM sales s LEFT JOIN shops t ON s.Shop = t.Shop AND t.name IS NOT NULL WHERE s.k < 5",
        "SELECT k, row_number() OVER (PARTITION BY Shop ORDER BY amount DESC) AS place FROM sales",
        "SELECT name, CASE WHEN Shop = 0 THEN 'first' ELSE 'other' END AS which FROM shops",
        "SELECT max(day) AS last FROM sales WHERE k IN (SELECT Shop FROM shops WHERE name LIKE 'shop%')",
    ],
)
def test_a_query_has_the_answer_that_spark_gives(spark: SparkSession, text: str) -> None:
    frames = {"sales": spark.sql(SALES), "shops": spark.sql(SHOPS)}
    answer = tidegate.spark.sql(text, **frames)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    expected = spark.sql(text)
    assert answer.columns == expected.columns
    assert sorted(map(tuple, answer.collect()), key=str) == sorted(map(tuple, expected.collect()), key=str)


def test_a_query_has_parameters(spark: SparkSession) -> None:
    text = "SELECT Shop, name FROM shops WHERE Shop >= $1 AND name = $2"
    answer = tidegate.spark.sql(text, shops=spark.sql(SHOPS), parameters=[1, "shop 1"])
    assert answer.collect() == [(1, "shop 1")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT shop FROM shops", "No field named shop"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELEC", "Expected: an SQL statement"),
    ],
)
def test_a_query_that_is_not_planned_is_refused(spark: SparkSession, text: str, sentence: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=sentence) as refused:
        tidegate.spark.sql(text, shops=spark.sql(SHOPS))
    assert refused.value.reason == "SQL_REFUSED"


def jobs(spark: SparkSession) -> int:
    """The jobs of the application so far."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def moved() -> int:
    """The bytes that this process has read and written, as the system counts them."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"]) + int(counters["wchar"])


def partitions(frame: DataFrame) -> list[int]:
    """The partitions that have rows."""
    return sorted(row[0] for row in frame.selectExpr("spark_partition_id() AS at").distinct().collect())


SORTED = "SELECT k, v FROM rows ORDER BY v DESC, k"
JOINED = "SELECT l.k, l.v, r.v AS w FROM l JOIN r ON l.k = r.k"


def test_nothing_runs_before_the_rows_are_wanted_and_none_passes_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(300_000).selectExpr("id AS k", "cast(hash(id) AS bigint) AS v")
    tidegate.spark.sql(SORTED, rows=rows.limit(10)).collect()  # modules are read
    before = jobs(spark)
    answer = tidegate.spark.query(_planned(SORTED, rows=rows), {"rows": rows}, **on_channels(3))
    assert jobs(spark) == before
    bytes_before = moved()
    answer.write.parquet(str(tmp_path / "answer"))
    assert moved() - bytes_before < 1_000_000
    assert sum(file.stat().st_size for file in (tmp_path / "answer").glob("*.parquet")) > 2_000_000
    assert partitions(answer) == [0, 1, 2]
    assert answer.limit(5).collect() == rows.selectExpr("k", "v").orderBy(rows.v.desc(), "k").limit(5).collect()
    assert answer.toArrow().to_pydict() == rows.orderBy(rows.v.desc(), "k").toArrow().to_pydict()


def _planned(text: str, **frames: DataFrame) -> bytes:
    from tidegate.spark.sql_queries import _planned as planned

    return planned(text, frames)


def test_rows_for_all_channels_travel_through_the_shuffle(spark: SparkSession) -> None:
    """They are more than an executor's task would put into parcels otherwise."""
    left = spark.range(200_000).selectExpr("id % 50000 AS k", "id AS v")
    right = spark.range(50_000).selectExpr("id AS k", "id * 3 AS v")
    plan = _planned(JOINED, l=left, r=right)
    answer = tidegate.spark.query(plan, {"l": left, "r": right}, **on_channels(2), broadcast=["r"])
    expected = left.alias("l").join(right.alias("r"), "k").selectExpr("k", "l.v", "r.v AS w")
    assert answer.exceptAll(expected).count() == 0
    assert answer.count() == 200_000


def test_files_are_read_where_they_are_with_the_rows_and_the_order_of_a_local_task(
    spark: SparkSession, table: Write
) -> None:
    folder = table(*[{"k": [n * 10 + at for at in range(10)], "v": [n] * 10} for n in range(3)])
    frame = spark.read.parquet(str(folder))
    plan = _planned("SELECT v, sum(k) AS total FROM rows GROUP BY v", rows=frame)
    answer = tidegate.spark.query(plan, {"rows": frame}, **on_channels(3))
    with tidegate.local() as client:
        local = client.query(plan, {"rows": folder}, **on_channels(3), determinism="strict")
    assert [tuple(row) for row in answer.collect()] == [tuple(row.values()) for row in local.to_pylist()]
    pq.write_table(pa.table({"k": [1], "v": [1]}), folder / "part-1.parquet")
    with pytest.raises(PySparkException, match=r"part-1\.parquet"):
        answer.collect()


def test_a_dataframe_without_rows_and_an_answer_without_columns(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "k bigint, v bigint")
    assert tidegate.spark.sql("SELECT count(*) AS n, sum(v) AS s FROM rows", rows=empty).collect() == [(0, None)]
    assert tidegate.spark.sql(SORTED, rows=empty).collect() == []
    bare = sub.read_named_table("rows", {"k": sub.i64}).select().to_plan().SerializeToString()
    assert tidegate.spark.query(bare, {"rows": spark.range(7).selectExpr("id AS k")}).count() == 7


def test_an_error_of_the_rows_is_said(spark: SparkSession) -> None:
    rows = spark.range(10).selectExpr("id AS k", "9223372036854775807 - id AS v")
    answer = tidegate.spark.sql("SELECT k + v + v AS too_large FROM rows", rows=rows)
    with pytest.raises(PySparkException, match=r"(?i)overflow|out of range"):
        answer.collect()


def test_values_that_spark_cannot_hold_are_refused_by_the_name_of_their_column(spark: SparkSession) -> None:
    rows = spark.sql("SELECT '2024-01-01 00:00:00.000000001' AS text")
    answer = tidegate.spark.sql("SELECT CAST(text AS timestamp) AS instant FROM rows", rows=rows)
    with pytest.raises(PySparkException, match="column 'instant'"):
        answer.collect()


def test_spark_connect_computes_a_query_too(connected: SparkSession) -> None:
    rows = connected.range(1000).selectExpr("id % 7 AS k", "id AS v")
    answer = tidegate.spark.sql("SELECT k, sum(v) AS s FROM rows GROUP BY k ORDER BY k", rows=rows)
    assert [tuple(row) for row in answer.collect()] == [(k, sum(range(k, 1000, 7))) for k in range(7)]


def test_a_table_that_a_plan_names_itself_is_joined(spark: SparkSession, tmp_path: Path) -> None:
    """What only it feeds is computed once, at once."""
    pq.write_table(pa.table({"j": [1, 1, 2], "w": [10, 20, 30]}), tmp_path / "w.parquet")
    named = plans.read("", "j", "w")["read"]
    named = {"baseSchema": named["baseSchema"], "localFiles": {"items": [_item(tmp_path / "w.parquet")]}}
    plan = plans.plan(plans.joined(plans.read("rows", "k", "v"), {"read": named}, 2), *"kvjw").json
    rows = spark.range(4).selectExpr("id AS k", "id AS v")
    answer = tidegate.spark.query(plan, {"rows": rows}, **on_channels(2))
    assert sorted(tuple(row) for row in answer.collect()) == [(1, 1, 1, 10), (1, 1, 1, 20), (2, 2, 2, 30)]


def _item(path: Path) -> dict[str, object]:
    return {"uriFile": path.as_uri(), "parquet": {}}


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"executor": "local"}, "UNKNOWN_OPTION"), ({"determinism": "relaxed"}, "NOT_ON_SPARK")],
)
def test_options_without_a_meaning_for_a_query_are_refused(
    spark: SparkSession, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(tidegate.InvalidRequest) as refused:
        tidegate.spark.query(handed_on(), {"rows": spark.range(3).selectExpr("id AS k", "id AS v")}, **options)
    assert refused.value.reason == reason


def test_a_server_computes_a_query_at_once(spark: SparkSession, remote: tidegate.Client) -> None:
    rows = spark.range(5).selectExpr("id AS k", "id AS v")
    assert tidegate.spark.query(handed_on(), {"rows": rows}, client=remote).collect() == rows.collect()

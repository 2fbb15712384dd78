"""By reference: Tidegate reads the files of a DataFrame that is files read as they are; nothing else goes this way."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.spark import Bytes, Fed, Order, Way, feed
from tidegate.spark.data_frames import settings
from tidegate.task import Task

from .conftest import Write, handed_on, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def ordered(frame: DataFrame) -> list[dict[str, object]]:
    """Spark's own rows, by file and then by place in it: what a file has is in the order of k."""
    return [row.asDict() for row in frame.orderBy("_metadata.file_path", "k").select("k", "v").collect()]


def kv(start: int, end: int) -> dict[str, list[object]]:
    return {"k": list(range(start, end)), "v": [n * 10 for n in range(start, end)]}


def test_files_are_named_in_the_order_of_their_paths(spark: SparkSession, task: Task, table: Write) -> None:
    folder = table(kv(0, 5), kv(5, 900), kv(900, 910))
    frame = spark.read.parquet(str(folder))
    fed = feed(frame, task, "rows")
    assert (fed.way, fed.order, fed.splits, fed.rows) == (Way.REFERENCE, Order.FILES, 3, 910)
    assert rows_of(task) == ordered(frame)


def test_a_path_is_loaded_by_the_active_session(spark: SparkSession, task: Task, table: Write) -> None:
    assert feed(table(kv(0, 5)), task, "rows").way is Way.REFERENCE
    assert rows_of(task) == pa.table(kv(0, 5)).to_pylist()


def test_a_file_that_is_read_twice_is_computed(spark: SparkSession, task: Task, table: Write) -> None:
    folder = str(table(kv(0, 5)))
    fed = feed(spark.read.parquet(folder, folder), task, "rows")
    assert (fed.way, fed.rows) == (Way.STAGED, 10)
    assert "more than once" in fed.why
    assert sorted(row["k"] for row in rows_of(task)) == sorted([*range(5)] * 2)


def test_columns_that_the_plan_does_not_read_may_be_computed(spark: SparkSession, task: Task, table: Write) -> None:
    frame = spark.read.parquet(str(table(kv(0, 5)))).selectExpr("v", "k", "k + v AS more")
    assert feed(frame, task, "rows").way is Way.REFERENCE
    assert rows_of(task) == pa.table(kv(0, 5)).to_pylist()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("SELECT k + 1 AS k, v FROM t", "column 'k' is computed"),
        ("SELECT v AS k, k AS v FROM t", "column 'k' is computed"),
        ("SELECT k, v FROM t WHERE k % 2 = 0", "must be computed"),
        ("SELECT k, v FROM t WHERE k > 7", "may keep only a part of row group 0"),
        ("SELECT k, v FROM t LIMIT 3", "is computed"),
        ("SELECT DISTINCT k, v FROM t", "is computed"),
        ("SELECT k, v FROM t UNION ALL SELECT k, v FROM t", "is computed"),
    ],
)
def test_what_spark_has_to_compute_cannot_go_by_reference(
    spark: SparkSession, task: Task, table: Write, expression: str, reason: str
) -> None:
    spark.read.parquet(str(table(kv(0, 10)))).createOrReplaceTempView("t")
    with pytest.raises(tidegate.Refused, match=f"cannot be fed by reference .*{reason}") as refused:
        feed(spark.sql(expression), task, "rows", how="reference")
    assert refused.value.reason == "NOT_BY_REFERENCE"


def test_what_spark_has_to_compute_is_staged_and_the_report_says_why(
    spark: SparkSession, task: Task, table: Write
) -> None:
    fed = feed(spark.read.parquet(str(table(kv(0, 10)))).where("k % 2 = 0"), task, "rows")
    assert (fed.way, "must be computed" in fed.why) == (Way.STAGED, True)
    assert [row["k"] for row in rows_of(task)] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("k >= 20", range(20, 40)),
        ("k < 20 AND v >= 0", range(20)),
        ("10 <= k AND k < 30", range(10, 30)),
        ("k IN (3, 100) OR k >= 30", {3, *range(30, 40)}),
        ("k < 10 OR k >= 30", [*range(10), *range(30, 40)]),
        ("k > 1000", []),
        ("k IS NOT NULL", range(40)),
    ],
)
def test_a_filter_that_keeps_whole_row_groups_is_a_choice_of_row_groups(
    spark: SparkSession, task: Task, table: Write, condition: str, kept: Sequence[int] | set[int]
) -> None:
    frame = spark.read.parquet(str(table(kv(0, 20), kv(20, 40), row_group_size=10))).where(condition)
    fed = feed(frame, task, "rows")
    assert fed.way is (Way.STAGED if isinstance(kept, set) else Way.REFERENCE)
    rows = [row["k"] for row in rows_of(task)]
    assert sorted(rows) == sorted(kept) if isinstance(kept, set) else rows == list(kept)


def test_rows_that_are_null_in_a_filters_column_do_not_slip_through(
    spark: SparkSession, task: Task, table: Write
) -> None:
    frame = spark.read.parquet(str(table({"k": [1, None, 3], "v": [1, 2, 3]}))).where("k > 0")
    assert feed(frame, task, "rows").way is Way.STAGED
    assert [row["k"] for row in rows_of(task)] == [1, 3]


DAY = dt.date(1500, 3, 15)  # the 5th of March in the calendar of Spark 2
OLD = {"org.apache.spark.version": "3.0.0", "org.apache.spark.legacyDateTime": ""}
REBASE = {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}
BY_CASE = {"spark.sql.caseSensitive": "true"}


@contextmanager
def session_of(spark: SparkSession, changed: Mapping[str, str]) -> Iterator[None]:
    """A context with other settings, which `feed` may change, too."""
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changed:
            spark.conf.unset(name)


@pytest.mark.parametrize(
    ("more", "metadata", "schema", "session", "condition", "kept"),
    [
        ({"d": [DAY] * 3}, {}, "d TIMESTAMP_NTZ", {}, "d = TIMESTAMP_NTZ'1500-03-15 00:00:00'", 3),
        ({"d": [DAY] * 3}, OLD, "d DATE", {}, "d > DATE'1500-03-10'", 0),
        ({"d": [DAY] * 3}, {}, "d DATE", REBASE, "d > DATE'1500-03-10'", 0),
        ({"x": [1] * 3, "X": [9] * 3}, {}, "x LONG, X LONG", BY_CASE, "x = 1", 3),
        ({"X": [9] * 3}, {}, "x LONG", BY_CASE, "x IS NOT NULL", 0),
    ],
)
def test_a_filter_is_not_decided_by_other_values_than_spark_reads(
    spark: SparkSession,
    task: Task,
    table: Write,
    more: dict[str, list[object]],
    metadata: Mapping[str, str],
    schema: str,
    session: Mapping[str, str],
    condition: str,
    kept: int,
) -> None:
    """The plan does not read the filter's column."""
    folder = table(pa.table(kv(0, 3) | more).replace_schema_metadata(metadata))
    with session_of(spark, session):
        frame = spark.read.schema(f"k LONG, v LONG, {schema}").parquet(str(folder)).where(condition)
        assert len(frame.collect()) == kept
        fed = feed(frame, task, "rows")
    assert (fed.way, fed.rows) == (Way.STAGED, kept)
    task.request_barrier()
    assert task.read_epoch().num_rows == kept


def test_a_filter_of_a_partition_column_is_not_decided_by_the_files(
    spark: SparkSession, task: Task, table: Write
) -> None:
    folder = table(kv(0, 3) | {"day": [7] * 3}, folder="table/day=1").parent
    frame = spark.read.schema("k LONG, v LONG, day INT").parquet(str(folder)).where("day = 7 OR k > 100")
    assert frame.count() == 0
    assert feed(frame, task, "rows").rows == 0


def test_a_column_of_the_same_name_but_for_case_is_another_one_if_the_session_says_so(
    spark: SparkSession, task: Task, table: Write
) -> None:
    folder = table({"K": [1, 2], "v": [3, 4]})
    with session_of(spark, BY_CASE):
        frame = spark.read.schema("k LONG, v LONG").parquet(str(folder))
        assert feed(frame, task, "rows").way is Way.STAGED
        wanted = [row.asDict() for row in frame.collect()]
    assert rows_of(task) == wanted == [{"k": None, "v": 3}, {"k": None, "v": 4}]


def partitioned(table: Write, *days: str) -> Path:
    for number, day in enumerate(days):
        folder = table(kv(number * 10, number * 10 + 10), folder=f"table/day={day}")
    return folder.parent


DAYS = {"k": sub.i64, "v": sub.i64, "day": sub.date}


def test_partition_columns_come_from_the_folders(spark: SparkSession, client: Client, table: Write) -> None:
    root = partitioned(table, "2024-01-02", "2024-01-01", "__HIVE_DEFAULT_PARTITION__")
    frame = spark.read.parquet(str(root)).where("day IS NULL OR day > DATE'2023-01-01'")
    task = client.create_task(handed_on(DAYS))
    assert feed(frame, task, "rows").way is Way.REFERENCE
    rows = sorted(rows_of(task), key=lambda row: row["k"])
    assert rows == [row.asDict() for row in frame.orderBy("k").select("k", "v", "day").collect()]


def test_a_filter_of_partitions_leaves_the_other_folders_out(spark: SparkSession, client: Client, table: Write) -> None:
    frame = spark.read.parquet(str(partitioned(table, "2024-01-01", "2024-01-02"))).where("day = DATE'2024-01-02'")
    task = client.create_task(handed_on(DAYS))
    assert feed(frame, task, "rows").way is Way.REFERENCE
    assert [row["k"] for row in rows_of(task)] == list(range(10, 20))


def test_folders_above_the_services_root_tell_it_nothing_so_spark_tells_their_columns(
    spark: SparkSession, table: Write
) -> None:
    root = partitioned(table, "2024-01-01") / "day=2024-01-01"
    frame = spark.read.option("basePath", str(root.parent)).parquet(str(root))
    with tidegate.local(roots=[root]) as client, client.create_task(handed_on(DAYS)) as task:
        fed = feed(frame, task, "rows", staging=root / "staging")
        assert (fed.way, "and the service does not look there" in fed.why) == (Way.STAGED, True)
        assert {str(row["day"]) for row in rows_of(task)} == {"2024-01-01"}


def test_a_partition_in_a_folder_that_is_called_like_another_one_has_its_own_value(
    spark: SparkSession, client: Client, table: Write
) -> None:
    root = partitioned(table, "2024-01-01")
    spark.sql("CREATE TABLE moved (k BIGINT, v BIGINT, day DATE) USING parquet PARTITIONED BY (day)")
    spark.sql(f"ALTER TABLE moved ADD PARTITION (day='2030-12-31') LOCATION '{root}/day=2024-01-01'")
    with client.create_task(handed_on(DAYS)) as task:
        fed = feed(spark.table("moved"), task, "rows")
        assert (fed.way, "do not tell the value of partition column 'day'" in fed.why) == (Way.STAGED, True)
        assert {str(row["day"]) for row in rows_of(task)} == {"2030-12-31"}
    spark.sql("DROP TABLE moved")


def test_partitions_that_a_subquery_chooses_are_computed(spark: SparkSession, client: Client, table: Write) -> None:
    spark.read.parquet(str(partitioned(table, "2024-01-01", "2024-01-02"))).createOrReplaceTempView("days")
    task = client.create_task(handed_on(DAYS))
    fed = feed(spark.sql("SELECT * FROM days WHERE day = (SELECT max(day) FROM days)"), task, "rows")
    assert (fed.way, "has a subquery" in fed.why) == (Way.STAGED, True)
    assert [row["k"] for row in rows_of(task)] == list(range(10, 20))


def test_names_of_files_may_have_whatever_names_may_have(spark: SparkSession, task: Task, table: Write) -> None:
    folder = table(kv(0, 2), kv(2, 4), kv(4, 6), folder="a b%20c; length=7")
    for number, name in enumerate(("new\nline", "50% #1?=&", "{é; isDirectory=false}")):
        (folder / f"part-{number}.parquet").rename(folder / f"{number} {name}.parquet")
    assert feed(spark.read.parquet(str(folder)), task, "rows").way is Way.REFERENCE
    assert [row["k"] for row in rows_of(task)] == list(range(6))


def test_an_epoch_for_each_value_of_a_partition_column(spark: SparkSession, client: Client, table: Write) -> None:
    frame = spark.read.parquet(str(partitioned(table, "2024-01-02", "2024-01-01", "2024-01-03")))
    task = client.create_task(handed_on(DAYS))
    fed = feed(frame, task, "rows", epoch_by="day")
    assert (fed.way, fed.epochs) == (Way.REFERENCE, (1, 2, 3))
    days = [[str(day) for day in set(task.read_epoch()["day"].to_pylist())] for _ in fed.epochs]
    assert days == [["2024-01-01"], ["2024-01-02"], ["2024-01-03"]]


def test_a_folder_that_spark_takes_no_column_from_gives_none(spark: SparkSession, client: Client, table: Write) -> None:
    root = partitioned(table, "2024-01-01")
    frame = spark.read.parquet(str(root / "day=2024-01-01"))
    task = client.create_task(handed_on(DAYS))
    fed = feed(frame, task, "rows", missing_columns="null")
    assert (fed.way, "which the folders' names have and the DataFrame does not" in fed.why) == (Way.STAGED, True)
    assert {row["day"] for row in rows_of(task)} == {None}


def test_a_column_that_the_dataframe_leaves_out_is_null_though_the_files_have_it(
    spark: SparkSession, task: Task, table: Write
) -> None:
    frame = spark.read.parquet(str(table(kv(0, 3)))).select("k")
    assert feed(frame, task, "rows", missing_columns="null").way is Way.STAGED
    assert [row["v"] for row in rows_of(task)] == [None] * 3


def test_a_column_that_older_files_do_not_have_is_null_there(spark: SparkSession, task: Task, table: Write) -> None:
    frame = spark.read.option("mergeSchema", "true").parquet(str(table({"k": [1, 2]}, kv(3, 5))))
    assert feed(frame, task, "rows").way is Way.REFERENCE
    assert rows_of(task) == [{"k": 1, "v": None}, {"k": 2, "v": None}, {"k": 3, "v": 30}, {"k": 4, "v": 40}]


def test_a_narrower_type_in_older_files_is_widened(spark: SparkSession, task: Task, table: Write) -> None:
    old = pa.table({"k": pa.array([1, 2], pa.int32()), "v": pa.array([1, 2], pa.int64())})
    frame = spark.read.schema("k long, v long").parquet(str(table(old, kv(3, 5))))
    assert feed(frame, task, "rows").way is Way.REFERENCE
    assert [row["k"] for row in rows_of(task)] == [1, 2, 3, 4]


INSTANTS = [-11_676_096_000_000_000, -2_208_988_800_000_001, -1, 0, 1_704_164_645_123_456, 253_402_300_799_999_999]
"""Microseconds from 1970 on, in the years 1600 to 9999."""


@pytest.mark.parametrize("version", ["3.5.1", "3.0.3"])
def test_timestamps_in_int96_of_other_writers_are_those_of_spark(
    spark: SparkSession, client: Client, table: Write, version: str
) -> None:
    """Files of Spark before 3.1 are in another calendar, which Spark itself translates."""
    times = pa.table({"t": pa.array(INSTANTS[3:], pa.timestamp("us", "UTC"))})
    named = times.replace_schema_metadata({"org.apache.spark.version": version})
    frame = spark.read.parquet(str(table(named, use_deprecated_int96_timestamps=True)))
    fed, micros = fed_instants(frame, client)
    assert fed.way is (Way.REFERENCE if version == "3.5.1" else Way.STAGED)
    assert micros == INSTANTS[3:]


def test_timestamps_that_spark_itself_stores_in_int96_are_read_where_they_lie(
    spark: SparkSession, client: Client, tmp_path: Path
) -> None:
    """Also by a plan that reads the files without Spark."""
    path = str(tmp_path / "times")
    rows = spark.createDataFrame([(n, micros) for n, micros in enumerate(INSTANTS)], "n int, micros long")
    stored = rows.coalesce(1).orderBy("n").selectExpr("timestamp_micros(micros) AS t")
    with settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        stored.write.parquet(path)
    [file] = sorted(Path(path).glob("*.parquet"))
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).physical_type == "INT96"
    fed, micros = fed_instants(spark.read.parquet(path), client)
    assert (fed.way, micros) == (Way.REFERENCE, INSTANTS)
    plan = sub.read_named_table("rows", {"t": sub.precision_timestamp_tz(6)}).to_plan()
    table = client.query(plan, {"rows": str(file)}, time_zone="Asia/Tokyo")
    assert table["t"].cast(pa.int64()).to_pylist() == INSTANTS


def fed_instants(frame: DataFrame, client: Client) -> tuple[Fed, list[int]]:
    """How a DataFrame's column `t` came, and its instants in microseconds."""
    task = client.create_task(handed_on({"t": sub.precision_timestamp_tz(6)}))
    fed = feed(frame, task, "rows")
    task.request_barrier()
    return fed, task.read_epoch()["t"].cast(pa.int64()).to_pylist()


def test_text_files_are_read_by_spark(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("k;v\n1;10\n2;\n")
    frame = spark.read.option("header", "true").option("sep", ";").schema("k long, v long").csv(str(tmp_path))
    fed = feed(frame, task, "rows")
    assert (fed.way, "CSV files by other rules and options than Tidegate" in fed.why) == (Way.STAGED, True)
    assert rows_of(task) == [{"k": 1, "v": 10}, {"k": 2, "v": None}]


def test_orc_files_of_plain_types_are_named(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    spark.range(20).selectExpr("id AS k", "id * 10 AS v").coalesce(1).write.orc(str(tmp_path / "orc"))
    assert feed(spark.read.orc(str(tmp_path / "orc")), task, "rows").way is Way.REFERENCE
    assert [row["k"] for row in rows_of(task)] == list(range(20))


def test_cached_rows_are_those_of_the_cache(spark: SparkSession, task: Task, table: Write) -> None:
    folder = table(kv(0, 3))
    frame = spark.read.parquet(str(folder)).cache()
    assert frame.count() == 3
    assert feed(frame, task, "rows").way is Way.STAGED
    frame.unpersist()


def test_a_session_that_skips_corrupt_files_reads_them_itself(spark: SparkSession, task: Task, table: Write) -> None:
    folder = table(kv(0, 3))
    (folder / "broken.parquet").write_bytes(b"PAR1 this is none")
    with session_of(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
        fed = feed(spark.read.schema("k long, v long").parquet(str(folder)), task, "rows")
    assert fed.way is Way.STAGED
    assert [row["k"] for row in rows_of(task)] == [0, 1, 2]


def test_a_file_that_has_changed_since_spark_listed_it_is_refused(
    spark: SparkSession, task: Task, table: Write
) -> None:
    frame = spark.read.parquet(str(table(kv(0, 3))))
    table(kv(0, 4))
    with pytest.raises(tidegate.Refused, match=r"part-0\.parquet has changed since Spark listed the file") as refused:
        feed(frame, task, "rows")
    assert refused.value.reason == "FILE_CHANGED"


def test_a_file_that_is_gone_is_refused(spark: SparkSession, task: Task, table: Write) -> None:
    folder = table(kv(0, 3), kv(3, 6))
    frame = spark.read.parquet(str(folder))
    os.remove(folder / "part-1.parquet")
    with pytest.raises(tidegate.Refused, match=r"part-1\.parquet.* cannot be found any more"):
        feed(frame, task, "rows")


def test_files_outside_of_the_services_roots_are_staged(spark: SparkSession, table: Write, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with tidegate.local(roots=[inside]) as client, client.create_task(handed_on()) as task:
        fed = feed(spark.read.parquet(str(table(kv(0, 3)))), task, "rows", staging=inside)
        assert (fed.way, "the service cannot read the files" in fed.why) == (Way.STAGED, True)
        assert [row["k"] for row in rows_of(task)] == [0, 1, 2]


def test_epochs_of_so_many_bytes_end_between_row_groups(spark: SparkSession, task: Task, table: Write) -> None:
    folder = table(kv(0, 40), kv(40, 80), row_group_size=10)
    stored = pq.read_metadata(folder / "part-0.parquet").row_group(0).column(0).total_compressed_size
    fed = feed(spark.read.parquet(str(folder)), task, "rows", epoch_by=Bytes(stored * 5))
    assert len(fed.epochs) > 2
    read = [[row["k"] for row in task.read_epoch().to_pylist()] for _ in fed.epochs]
    assert [k for epoch in read for k in epoch] == list(range(80))
    assert all(len(epoch) % 10 == 0 for epoch in read)


def test_epochs_of_so_many_files(spark: SparkSession, task: Task, table: Write) -> None:
    fed = feed(spark.read.parquet(str(table(kv(0, 2), kv(2, 4), kv(4, 6)))), task, "rows", epoch_by=2)
    assert [[row["k"] for row in task.read_epoch().to_pylist()] for _ in fed.epochs] == [[0, 1, 2, 3], [4, 5]]


def test_more_epochs_than_the_task_takes_are_refused_before_any(
    spark: SparkSession, client: Client, table: Write
) -> None:
    task = client.create_task(handed_on(), max_pending_epochs=2)
    frame = spark.read.parquet(str(table(kv(0, 2), kv(2, 4), kv(4, 6))))
    with pytest.raises(tidegate.Exhausted, match="would seal 3 epochs, and the task takes 2 more") as refused:
        feed(frame, task, "rows", epoch_by=1)
    assert refused.value.reason == "TOO_MANY_PENDING_EPOCHS"
    assert task.info().sources[0].last_added == 0

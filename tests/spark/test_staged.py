"""Staged: what Spark computes is written once, fed in the order it was written in, kept while it may be needed."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.proto.values import Transacted
from tidegate.spark import Order, Way, feed, sweep
from tidegate.spark.supplies import shared_folder, staged
from tidegate.task import Task

from ..continuous.histories import planned
from .conftest import KV, handed_on, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])


def computed(spark: SparkSession, rows: int = 100) -> DataFrame:
    return spark.range(0, rows, 1, 3).selectExpr("id AS k", "id * 10 AS v")


def transactions(staging: Path) -> list[str]:
    return sorted(folder.name for folder in staging.iterdir())


def test_the_order_is_that_of_sparks_partitions(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    fed = feed(computed(spark), task, "rows", staging=tmp_path)
    assert (fed.way, fed.order, fed.rows) == (Way.STAGED, Order.SPARK, 100)
    assert rows_of(task) == [row.asDict() for row in computed(spark).collect()]


def test_an_order_that_nobody_vouches_for_is_said_to_be_so(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    fed = feed(computed(spark).repartition(4), task, "rows", staging=tmp_path)
    assert (fed.order, "moves rows between tasks" in fed.order_why) == (Order.NOBODY, True)
    assert sorted(row["k"] for row in rows_of(task)) == list(range(100))


def test_rows_sorted_by_a_column_come_in_its_order_and_ties_by_the_others(
    spark: SparkSession, task: Task, tmp_path: Path
) -> None:
    frame = computed(spark).selectExpr("k", "v % 70 AS v").repartition(4)
    fed = feed(frame, task, "rows", staging=tmp_path, order_by="v")
    assert fed.order is Order.SORTED
    assert rows_of(task) == [row.asDict() for row in frame.orderBy("v", "k").collect()]


def test_an_epoch_for_each_value_of_a_column(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    frame = computed(spark, 30).selectExpr("k", "nullif(k % 3, 2) AS v")
    fed = feed(frame, task, "rows", staging=tmp_path, epoch_by="v", order_by="k")
    epochs = [task.read_epoch().to_pylist() for _ in fed.epochs]
    assert [{row["v"] for row in epoch} for epoch in epochs] == [{None}, {0}, {1}]
    assert [row["k"] for epoch in epochs for row in epoch] == [*range(2, 30, 3), *range(0, 30, 3), *range(1, 30, 3)]


def test_a_transaction_with_a_name_is_written_once_and_fed_again_as_it_was(
    spark: SparkSession, client: Client, tmp_path: Path
) -> None:
    frame = spark.range(50).selectExpr("id AS k", "cast(rand() * 1000000 AS long) AS v").repartition(3)
    answers = []
    for again in (False, True):
        task = client.create_task(handed_on())
        fed = feed(frame, task, "rows", staging=tmp_path, transaction="monday")
        assert ("was staged before" in fed.why) is again
        answers.append(rows_of(task))
    assert answers[0] == answers[1]


def test_a_name_that_stands_for_other_columns_is_refused(spark: SparkSession, client: Client, tmp_path: Path) -> None:
    feed(computed(spark), client.create_task(handed_on()), "rows", staging=tmp_path, transaction="monday")
    other = client.create_task(handed_on({"k": sub.i64}))
    with pytest.raises(tidegate.Refused, match="give this transaction another name") as refused:
        feed(computed(spark), other, "rows", staging=tmp_path, transaction="monday")
    assert refused.value.reason == "TRANSACTION_REUSED"


def test_a_named_feed_that_stopped_in_the_middle_goes_on_where_the_task_has_no_more(
    spark: SparkSession, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = computed(spark, 30).selectExpr("k", "k % 3 AS v")
    feed_all = partial(feed, frame, source="rows", epoch_by="v", staging=tmp_path, transaction="monday")
    task = client.create_task(handed_on())
    transact = task.transact

    def crash(application: str, version: int, *args: Any, **options: Any) -> Transacted:
        if version == 2:
            raise KeyboardInterrupt
        return transact(application, version, *args, **options)

    monkeypatch.setattr(task, "transact", crash)
    with pytest.raises(KeyboardInterrupt):
        feed_all(task=task)
    again, done = (feed_all(task=client.task(task.id)) for _ in range(2))
    assert [(fed.replayed, fed.epochs, fed.epoch) for fed in (again, done)] == [(1, (2, 3), 3), (3, (), 3)]
    assert [{row["v"] for row in task.read_epoch().to_pylist()} for _ in range(3)] == [{0}, {1}, {2}]
    assert task.info().sources[0].last_added == task.info().sources[0].last_sealed


def test_a_named_feed_is_added_once(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    first, second = (feed(computed(spark), task, "rows", staging=tmp_path, transaction="monday") for _ in range(2))
    assert [(fed.replayed, fed.epoch) for fed in (first, second)] == [(0, 1), (1, 1)]
    assert len(rows_of(task)) == 100


def test_a_named_feed_may_be_repeated_while_tasks_of_its_cancelled_job_still_write(
    spark: SparkSession, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, cancelled = staged.write_rows, []

    def written(rows: DataFrame, folder: Path, **options: Any) -> int:
        if not cancelled:
            cancelled.append(folder)
            raise RuntimeError("the job was cancelled")
        (cancelled[0] / "_temporary").mkdir(parents=True)
        return write(rows, folder, **options)

    monkeypatch.setattr(staged, "write_rows", written)
    feed_all = partial(feed, computed(spark), task, "rows", staging=tmp_path, transaction="monday")
    with pytest.raises(RuntimeError, match="cancelled"):
        feed_all()
    assert feed_all().rows == 100
    assert len(rows_of(task)) == 100


def test_a_column_that_the_dataframe_lacks_is_refused_unless_it_is_said_to_be_null(
    spark: SparkSession, client: Client, task: Task, tmp_path: Path
) -> None:
    frame = spark.range(2).selectExpr("id AS k")
    with pytest.raises(tidegate.InvalidRequest, match="reads column 'v', which the DataFrame does not have") as refused:
        feed(frame, task, "rows", staging=tmp_path)
    assert refused.value.reason == "MISSING_COLUMN"
    feed(frame, task, "rows", staging=tmp_path, missing_columns="null")
    with client.create_task(handed_on(), missing_columns="null") as lenient:
        feed(frame, lenient, "rows", staging=tmp_path)
        for either in (task, lenient):
            either.request_barrier()
            assert either.read_epoch().to_pylist() == [{"k": 0, "v": None}, {"k": 1, "v": None}]


@pytest.mark.parametrize(
    ("of_spark", "wanted", "lacking", "rows"),
    [
        ("named_struct('a', id)", STRUCT, "field 'b' of column 's'", [{"a": 0, "b": None}, {"a": 1, "b": None}]),
        (
            "array(named_struct('b', named_struct('c', id)))",
            pa.list_(pa.struct([("b", pa.struct([("c", pa.int64()), ("d", pa.int64())]))])),
            "field 'b.d' of column 's'",
            [[{"b": {"c": 0, "d": None}}], [{"b": {"c": 1, "d": None}}]],
        ),
    ],
)
@pytest.mark.parametrize("how", ["staged", "reference"])
def test_a_field_that_a_struct_of_the_dataframe_lacks_is_refused_unless_it_is_said_to_be_null(
    spark: SparkSession,
    client: Client,
    tmp_path: Path,
    of_spark: str,
    wanted: pa.DataType,
    lacking: str,
    rows: list[object],
    how: str,
) -> None:
    frame = spark.range(2).coalesce(1).selectExpr(f"{of_spark} AS s")
    if how == "reference":
        frame.write.parquet(str(tmp_path / "written"))
        frame = spark.read.parquet(str(tmp_path / "written"))
    with client.create_task(planned("SELECT s FROM rows", {"rows": pa.schema([("s", wanted)])})) as task:
        with pytest.raises(tidegate.InvalidRequest, match=f"reads {lacking}, which .* does not have; there") as refused:
            feed(frame, task, "rows", staging=tmp_path, how=how)
        assert refused.value.reason == "MISSING_COLUMN"
        feed(frame, task, "rows", staging=tmp_path, how=how, missing_columns="null")
        task.request_barrier()
        assert task.read_epoch().to_pydict() == {"s": rows}


def test_a_staging_folder_that_is_called_like_a_missing_column_is_refused(
    spark: SparkSession, task: Task, tmp_path: Path
) -> None:
    frame = spark.range(3).selectExpr("id AS k")
    with pytest.raises(tidegate.InvalidRequest, match="named after column 'v'") as refused:
        feed(frame, task, "rows", staging=tmp_path / "v=1" / "staging", missing_columns="null")
    assert refused.value.reason == "STAGING_FOLDER"


def test_files_stay_until_their_epoch_is_acknowledged(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    fed = feed(computed(spark), task, "rows", staging=tmp_path)
    assert sweep(tmp_path, task) == []
    task.request_barrier()
    assert task.read_epoch().num_rows == 100
    assert sweep(tmp_path, task) == []
    task.acknowledge(tidegate.Cursor(2, 0))
    assert sweep(tmp_path, task) == [fed.transaction]
    assert transactions(tmp_path) == []


def test_files_go_with_their_task_at_the_next_feed(spark: SparkSession, client: Client, tmp_path: Path) -> None:
    with client.create_task(handed_on()) as task:
        feed(computed(spark), task, "rows", staging=tmp_path)
    second = feed(computed(spark), client.create_task(handed_on()), "rows", staging=tmp_path)
    assert transactions(tmp_path) == [second.transaction]


def test_files_stay_while_a_checkpoint_would_have_their_epoch_replayed(spark: SparkSession, tmp_path: Path) -> None:
    staging, checkpoints = tmp_path / "staging", tmp_path / "checkpoints"
    checkpoints.mkdir()
    with tidegate.local(checkpoint_root=checkpoints) as client, client.create_task(handed_on()) as task:
        task.request_barrier(checkpoint=True)
        task.read_epoch()
        fed = feed(computed(spark), task, "rows", staging=staging)
        rows_of(task)
        task.acknowledge(tidegate.Cursor(3, 0))
        assert sweep(staging, task) == []
        task.request_barrier(checkpoint=True)
        task.read_epoch()
        assert sweep(staging, task) == [fed.transaction]


def test_what_a_killed_driver_has_left_goes_at_the_next_feed(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    fed = feed(computed(spark), task, "rows", staging=tmp_path)
    manifest = tmp_path / str(fed.transaction) / "_manifest.json"
    contents = json.loads(manifest.read_text())
    contents["users"][0]["service"] = f"process:{os.uname().nodename}:{2**22 + 1}:0"
    manifest.write_text(json.dumps(contents))
    assert sweep(tmp_path, task) == [fed.transaction]


def test_what_other_services_use_is_left_to_them(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    fed = feed(computed(spark), task, "rows", staging=tmp_path)
    manifest = tmp_path / str(fed.transaction) / "_manifest.json"
    contents = json.loads(manifest.read_text())
    contents["users"][0]["service"] = "elsewhere:50051"
    manifest.write_text(json.dumps(contents))
    assert sweep(tmp_path, task) == []


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    frame = computed(spark).selectExpr("k", "raise_error('no')::bigint AS v")
    with pytest.raises(Exception, match="no"):
        feed(frame, task, "rows", staging=tmp_path)
    assert transactions(tmp_path) == []


def test_the_sessions_settings_are_as_they_were(spark: SparkSession, task: Task, tmp_path: Path) -> None:
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    feed(computed(spark), task, "rows", staging=tmp_path)
    assert spark.conf.get(name) == before


def test_an_attempt_that_fails_in_the_middle_writes_no_row_twice(
    spark: SparkSession, task: Task, tmp_path: Path
) -> None:
    fed = feed(failing_once(computed(spark), tmp_path / "failed"), task, "rows", how="staged", staging=tmp_path / "s")
    assert fed.rows == 100
    assert [row["k"] for row in rows_of(task)] == list(range(100))


def failing_once(frame: DataFrame, mark: Path) -> DataFrame:
    """The same rows, out of Python; the worker of partition 1 is killed in its first attempt."""

    def rows(batches):  # type: ignore[no-untyped-def]
        import os
        import signal

        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get().partitionId() == 1 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return frame.mapInArrow(rows, frame.schema)


def test_rows_are_staged_in_the_folder_whatever_sparks_default_file_system_is(
    spark: SparkSession, client: Client, tmp_path: Path
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    session = spark.newSession()
    session.conf.set("fs.defaultFS", "viewfs://cluster/")
    session.conf.set(f"fs.viewfs.mounttable.cluster.link./{tmp_path.parts[1]}", elsewhere.as_uri())
    for number, staging in enumerate(
        (tmp_path / "staged here", f"file:{tmp_path}/one", f"file://{tmp_path}/a#b?c%20d")
    ):
        with client.create_task(handed_on()) as task:
            assert feed(computed(session), task, "rows", staging=staging).rows == 100, number
            assert rows_of(task) == [row.asDict() for row in computed(spark).collect()]
    computed(session).write.parquet(f"{tmp_path}/without a scheme")
    assert list(elsewhere.rglob("part-*.parquet"))
    assert not (tmp_path / "without a scheme").exists()


def test_a_file_that_the_driver_does_not_find_is_an_error_and_nothing_is_fed(
    spark: SparkSession, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(rows: DataFrame, folder: Path, **options: Any) -> int:
        wrote = shared_folder.write_rows(rows, folder, **options)
        max(folder.glob("part-*.parquet")).unlink()
        return wrote

    monkeypatch.setattr(staged, "write_rows", lost)
    with pytest.raises(tidegate.InvalidRequest, match=r"Spark wrote 100 rows there, .* finds 66 of them") as refused:
        feed(computed(spark), task, "rows", staging=tmp_path)
    assert refused.value.reason == "STAGING_FOLDER"
    assert (transactions(tmp_path), rows_of(task)) == ([], [])


def test_a_service_that_does_not_see_the_folder_is_told_of_before_the_first_row(
    spark: SparkSession, remote: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = remote.create_task(handed_on())

    def unseen(source: str, path: Path) -> None:
        raise tidegate.NotFound(f"{path} is not there", reason="FILE_NOT_FOUND")

    monkeypatch.setattr(task, "find_files", unseen)
    written = computed(spark).selectExpr("k", "raise_error('a row is computed') AS v")
    with pytest.raises(tidegate.InvalidRequest, match=r"and the service does not: .* is not there") as refused:
        feed(written.selectExpr("k", "cast(v AS long) AS v"), task, "rows", how="staged", staging=tmp_path / "staging")
    assert refused.value.reason == "STAGING_FOLDER"
    assert transactions(tmp_path / "staging") == []


def test_a_folder_is_looked_at_once_for_a_spark_application(
    spark: SparkSession, remote: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = remote.create_task(handed_on())
    looked: list[Any] = []
    find = task.find_files
    monkeypatch.setattr(task, "find_files", lambda *wanted: (looked.append(wanted), find(*wanted))[1])
    for session in (spark, spark.newSession()):
        feed(computed(session), task, "rows", how="staged", staging=tmp_path / "staging")
    assert len(looked) == 1


@pytest.mark.parametrize("staging", ["dbfs:/x", "hdfs://host/x", "s3a://bucket", "file://host/x", "abfss:///x"])
def test_a_staging_folder_that_is_no_folder_of_this_machine_is_refused(
    spark: SparkSession, task: Task, staging: str
) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="is not a folder of a file system") as refused:
        feed(computed(spark), task, "rows", staging=staging)
    assert refused.value.reason == "STAGING_FOLDER"


def test_a_staging_folder_is_needed_for_a_service_elsewhere(spark: SparkSession, remote: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="with staging=") as refused:
        feed(computed(spark), remote.create_task(handed_on(KV)), "rows", how="staged")
    assert refused.value.reason == "STAGING_FOLDER"

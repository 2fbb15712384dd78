"""Failures on Spark: a lost process does not show, and an error of the plan is the same as in a local task."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
import tidegate.spark
from tests.continuous.histories import planned, table
from tests.executor.test_user_operators import ROWS, SUMS, Sums, expected, rows_in_order, summed
from tests.loops.queries import SCHEMAS, Looped, Query
from tests.on_channels import on_spark
from tidegate.executor.spark import job
from tidegate.operators.arrays.digest import digest
from tidegate.proto.operator_registration import Options

from ...on_channels import on_channels

ENOUGH = ROWS.slice(0, 70_000)
"""Rows of which two channels get a share: they pass a shuffle."""


class KilledOnce(Sums):
    """Its process is killed, the first time that one has rows for it."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.marker = Path(str(options["marker"]))

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().execute(batches, stream, channel)


class Endless(Sums):
    """Does not end once it has rows, and says so in a file."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.marker = Path(str(options["marker"]))

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        self.marker.touch()
        while True:
            time.sleep(0.01)  # until its process is told to end


class LosesShuffledRows(Sums):
    """All rows that Spark has shuffled are lost, the first time that one has done its channel."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.marker = Path(str(options["marker"]))
        self.folder = Path(str(options["folder"]))

    def done(self, channel: int) -> pa.Table | None:
        with contextlib.suppress(FileExistsError):
            self.marker.touch(exist_ok=False)
            lost = list(self.folder.rglob("shuffle_*.data"))
            for file in lost:
                file.unlink()
            self.marker.write_text(f"{len(lost)} files")
        return super().done(channel)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    operators = {
        "loses": tidegate.user_operator(LosesShuffledRows, schema=SUMS, partition="c0"),
        "sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0"),
        "endless": tidegate.user_operator(Endless, schema=SUMS, partition="c0"),
        "killed": tidegate.user_operator(KilledOnce, schema=SUMS, partition="c0"),
    }
    with tidegate.local(operators=operators) as local_client:
        yield local_client


def test_a_process_that_is_killed_in_the_middle_does_not_show(
    client: tidegate.Client, spark: SparkSession, tmp_path: Path
) -> None:
    marker = tmp_path / "killed"
    outcomes = []
    for name, options in (("sums", {}), ("killed", on_spark(spark))):
        operator_options = {} if name == "sums" else {"marker": str(marker)}
        with client.create_task(summed(name, **operator_options), **on_channels(2), **options) as task:
            rows = rows_in_order(task.run_epoch({"numbers": ENOUGH}).table())
            outcomes.append((rows, runs(task, "User")))
            stages = runs(task, "Stage")
    assert marker.exists()
    assert stages == [2, 2]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == expected(ENOUGH)


def runs(task: tidegate.Task, operator: str) -> list[int]:
    """How often the operators of this name have run, in all of their channels."""
    return [counted.runs for counted in task.statistics().operators if counted.operator == operator]


def test_shuffled_rows_that_are_lost_behind_a_channel_that_has_ended_do_not_show(
    client: tidegate.Client, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark computes them again for the other channels, and fails a job whose rows are other ones then. The last of
    three channels waits for one of two cores, so that it comes too late for the first ones.
    """
    lost = {"folder": spark.sparkContext.getConf().get("spark.local.dir"), "marker": str(tmp_path / "by a task")}
    with client.create_task(summed("loses", **lost), **on_channels(3), **on_spark(spark)) as task:
        assert rows_in_order(task.run_epoch({"numbers": ENOUGH}).table()) == expected(ENOUGH)
        assert runs(task, "Stage") == [3, 3]
    lost["marker"] = str(tmp_path / "by a query")
    numbers = spark.range(0, ENOUGH.num_rows, 1, 2).selectExpr("id % 700 AS k", "id AS v")
    answer = tidegate.spark.query(summed("loses", **lost), {"numbers": numbers}, client=client, **on_channels(3))
    assert rows_in_order(answer.toArrow()) == expected(ENOUGH)
    markers = {marker.name: marker.read_text() for marker in tmp_path.iterdir()}
    assert markers.keys() == {"by a task", "by a query"}
    assert "0 files" not in markers.values()


def test_an_attempt_that_speculation_has_run_twice_counts_and_is_read_once(
    client: tidegate.Client, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each channel is run to its end by two attempts, of which Spark takes the second."""
    once = job._task

    def twice(step: job.Step, ended: Any) -> Any:
        run = once(step, ended)

        def both(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            batch_list = list(batches)
            assert list(run(iter(batch_list)))
            yield from run(iter(batch_list))

        return both

    monkeypatch.setattr(job, "_task", twice)
    with client.create_task(summed(), **on_channels(2), **on_spark(spark)) as task:
        assert rows_in_order(task.run_epoch({"numbers": ROWS}).table()) == expected(ROWS)
        statistics = task.statistics()
        stages = runs(task, "Stage")
    counted = [
        (operator.operator, operator.rows_in)
        for operator in statistics.operators
        if operator.operator in ("Stage", "Exchange")
    ]
    assert sorted(counted) == [("Exchange", ROWS.num_rows), ("Stage", 0), ("Stage", ROWS.num_rows)]
    assert stages == [2, 2]
    assert [(stage.tasks, stage.rows_in) for stage in statistics.stages] == [(2, ROWS.num_rows), (2, 0)]


def test_an_error_of_the_plan_is_the_same_as_here(client: tidegate.Client, spark: SparkSession) -> None:
    raised = []
    for options in ({}, on_spark(spark)):
        with client.create_task(summed(times=0), **on_channels(2), **options) as task:
            with pytest.raises(tidegate.TidegateError) as error:
                task.run_epoch({"numbers": ENOUGH}).table()
            raised.append((type(error.value), error.value.reason, str(error.value).partition("\nTraceback")[0]))
    assert raised[0] == raised[1]


def test_an_epoch_after_one_that_failed_is_run(client: tidegate.Client, spark: SparkSession) -> None:
    with client.create_task(summed(times=0), **on_spark(spark), on_error="skip_epoch", **on_channels(2)) as task:
        with pytest.raises(tidegate.EpochError):
            task.run_epoch({"numbers": ENOUGH}).table()
        assert task.run_epoch({"numbers": ENOUGH.slice(0, 0)}).table().num_rows == 0


def test_nothing_is_left_of_an_epoch(spark: SparkSession, tmp_path: Path) -> None:
    operators = {"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}
    with (
        tidegate.local(operators=operators, spark_staging=tmp_path) as client,
        client.create_task(summed(), **on_spark(spark), **on_channels(2)) as task,
    ):
        task.run_epoch({"numbers": ENOUGH}).table()
        (service,) = tmp_path.iterdir()
        assert [path.name for path in service.rglob("*") if path.is_file()] == ["in-use"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["spark", "connected"])
def test_a_job_that_runs_is_cancelled_with_its_task(
    way: str, client: tidegate.Client, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """After which Spark runs nothing of it, and other tasks' jobs."""
    session = request.getfixturevalue(way)
    marker = tmp_path / "running"
    with client.create_task(summed("endless", marker=str(marker)), **on_channels(2), **on_spark(session)) as task:
        task.add_split("numbers", ENOUGH)
        task.request_barrier()
        while not marker.exists():
            assert task.info().error is None
            time.sleep(0.01)
        task.cancel()
        with pytest.raises(tidegate.TaskCancelled):
            task.read_epoch()
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.01)  # a job is cancelled behind the call's back
    with client.create_task(summed(), **on_channels(2), **on_spark(session)) as other:
        assert rows_in_order(other.run_epoch({"numbers": ENOUGH}).table()) == expected(ENOUGH)


def test_a_driver_that_is_gone_between_epochs_does_not_show(spark: SparkSession) -> None:
    """Another service, with a session of its own, is fed the splits of the epochs that nobody has read."""
    operators = {"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}
    parts = [ROWS.slice(at * 50_000, 50_000) for at in range(4)]

    def digests(parts: Sequence[pa.Table], **options: object) -> list[str]:
        with (
            tidegate.local(operators=operators) as client,
            client.create_task(summed(), **on_channels(2), **options) as task,
        ):
            tables = [task.run_epoch({"numbers": part}).table() for part in parts]
            return [digest(result.schema, result.to_batches()) for result in tables]

    before = digests(parts[:2], **on_spark(spark))
    after = digests(parts[2:], **on_spark(spark.newSession()))
    assert before + after == digests(parts)


def failed_on_spark(client: tidegate.Client, spark: SparkSession, sql: str, rows: pa.Table, **how: Any) -> Any:
    """The error's message and the statistics of a task whose epoch has failed, on Spark and here."""
    failures = []
    for options in ({}, on_spark(spark)):
        with client.create_task(planned(sql, {"l": rows.schema}), on_error="skip_epoch", **how, **options) as task:
            with pytest.raises(tidegate.EpochError) as error:
                task.run_epoch({"l": [rows.slice(0, 1), rows]}).table()
            failures.append((str(error.value), task.statistics()))
            task.run_epoch({"l": rows.slice(0, rows.num_rows - 1)}).table()
            assert {operator.health for operator in task.statistics().operators} == {1.0}
    return failures


@pytest.mark.parametrize("channels", [1, 2])
def test_an_error_of_rows_names_their_splits_and_the_operator_that_failed(
    client: tidegate.Client, spark: SparkSession, channels: int
) -> None:
    rows = pa.table({"k": [at % 7 for at in range(300_000)], "s": ["5"] * 299_999 + ["x"]})
    sql = "SELECT k, count(DISTINCT CAST(s AS BIGINT)) AS n FROM l GROUP BY k"
    (here, local), (there, remote) = failed_on_spark(client, spark, sql, rows, **on_channels(channels))
    assert here == there
    assert there.endswith(", in splits 1 to 2 of source 'l'")
    assert len([counted for counted in remote.operators if counted.operator == "Stage"]) == (1 if channels == 1 else 3)
    for statistics in (local, remote):
        failed = {operator.operator for operator in statistics.operators if operator.health == 0}
        assert failed == {"Fragment"}
        assert all(0 <= operator.busy <= 1 and 0 <= operator.backpressure <= 1 for operator in statistics.operators)
        assert any(operator.busy > 0 for operator in statistics.operators)


def test_a_loop_that_failed_on_spark_has_lost_its_health(client: tidegate.Client, spark: SparkSession) -> None:
    rows = {"edges": table([(0, 1, 1), (1, 0, 1)], SCHEMAS["edges"]), "seeds": table([(0, 0)], SCHEMAS["seeds"])}
    body = "select x.a + 1 as a, e.b from x join edges e on x.b = e.a"
    endless = Query({"x": Looped(body, "select a, b from seeds", rounds=5, fails=True)}).plan()
    with client.create_task(
        endless, **on_spark(spark), loops="general", on_error="skip_epoch", **on_channels(2)
    ) as task:
        with pytest.raises(tidegate.EpochError) as error:
            task.run_epoch(rows).table()
        statistics = task.statistics()
    assert error.value.reason == "LOOP_ROUNDS"
    assert [loop.health for loop in statistics.loops] == [0.0]
    assert {
        operator.operator for operator in statistics.operators if operator.health == 0 and operator.operator != "Loop"
    } == set()

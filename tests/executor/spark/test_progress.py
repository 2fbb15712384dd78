"""Progress of the Spark job that runs for a task."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.executor.plans import plan
from tests.executor.plans import read as edges_read
from tests.executor.plans import summed as summed_rows
from tests.executor.test_loops import PLAN, chain
from tests.executor.test_user_operators import ROWS, SUMS, Sums, expected, rows_in_order, summed
from tests.on_channels import on_spark
from tidegate.proto.operator_registration import Options
from tidegate.proto.statistics import OperatorStatistics, SourceProgress, StageStatistics

from ...on_channels import on_channels

LOOKED = 0.02
"""Seconds between two looks, which leave the cores to Spark."""


class Waits(Sums):
    """Until a file is there, on each of its channels."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.open = Path(str(options["open"]))

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        while not self.open.exists():
            time.sleep(LOOKED)
        super().execute(batches, stream, channel)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    operators = {
        "sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0"),
        "waits": tidegate.user_operator(Waits, schema=SUMS, partition="c0"),
    }
    with tidegate.local(operators=operators) as local_client:
        yield local_client


def seen(task: tidegate.Task, enough: Callable[[Sequence[StageStatistics]], bool]) -> tuple[StageStatistics, ...]:
    """The task's stages, once they are so."""
    while True:
        info = task.info()
        assert info.error is None
        if enough(info.statistics.stages):
            return info.statistics.stages
        time.sleep(LOOKED)


def halfway(stages: Sequence[StageStatistics]) -> bool:
    return len(stages) == 2 and stages[0].done == 2 and stages[0].bytes_out > 0 and stages[1].running == 2


def of(task: tidegate.Task, operator: str) -> list[OperatorStatistics]:
    return [entry for entry in task.statistics().operators if entry.operator == operator]


def test_stages_and_tasks_are_told_while_they_run(client: tidegate.Client, spark: SparkSession, tmp_path: Path) -> None:
    """Spark is stopped between two stages: the first has handed on what the second waits with."""
    gate = tmp_path / "open"
    with client.create_task(summed("waits", open=str(gate)), **on_channels(2), **on_spark(spark)) as task:
        task.add_split("numbers", ROWS)
        task.request_barrier()
        reading, summing = seen(task, halfway)
        assert (reading.pipelines, reading.tasks, reading.running) == (("pipeline 1",), 2, 0)
        assert (reading.rows_in, reading.rows_out) == (ROWS.num_rows, ROWS.num_rows)
        assert (summing.pipelines, summing.tasks, summing.done, summing.rows_out) == ((), 2, 0, 0)
        assert sum(operator.rows_in for operator in of(task, "Exchange")) == ROWS.num_rows
        assert of(task, "User") == []

        gate.touch()
        rows = task.read_epoch()
        reading, summing = seen(task, lambda stages: stages[1].bytes_in > 0)
        assert (summing.pipelines, summing.running, summing.done, summing.failed) == (("pipeline 2",), 0, 2, 0)
        assert summing.rows_out == rows.num_rows == len(expected(ROWS))
        assert summing.bytes_in == reading.bytes_out
        assert sum(operator.rows_in for operator in of(task, "Exchange")) == ROWS.num_rows


def test_spark_connect_tells_of_tasks_while_they_run_and_of_rows_at_the_end(
    client: tidegate.Client, connected: SparkSession, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    with client.create_task(summed("waits", open=str(gate)), **on_channels(2), **on_spark(connected)) as task:
        task.add_split("numbers", ROWS)
        task.request_barrier()
        told_of = seen(task, lambda stages: sum(stage.done for stage in stages) == 2)
        assert [(stage.tasks, stage.pipelines, stage.rows_out) for stage in told_of if stage.done] == [(2, (), 0)]

        gate.touch()
        rows = task.read_epoch()
        reading, summing = task.statistics().stages
        assert (reading.pipelines, reading.tasks, reading.done) == (("pipeline 1",), 2, 2)
        assert (summing.pipelines, summing.tasks, summing.done) == (("pipeline 2",), 2, 2)
        assert (reading.rows_in, summing.rows_out) == (ROWS.num_rows, rows.num_rows)


def test_the_stages_that_are_explained_are_those_that_run(client: tidegate.Client, spark: SparkSession) -> None:
    options = {**on_channels(2), **on_spark(spark)}
    explained = json.loads(client.explain(summed(), rows={"numbers": ROWS.num_rows}, **options).json)["spark"]["stages"]
    with client.create_task(summed(), **options) as task:
        assert rows_in_order(task.run_epoch({"numbers": ROWS}).table()) == expected(ROWS)
        stages = task.statistics().stages
    assert [(stage.tasks, stage.done, list(stage.pipelines)) for stage in stages] == [
        (stage["tasks"], stage["tasks"], [f"pipeline {pipeline['pipeline']}" for pipeline in stage["pipelines"]])
        for stage in explained
    ]


def test_jobs_have_the_group_the_description_and_the_pool_that_spark_shows(
    client: tidegate.Client, spark: SparkSession
) -> None:
    session, context = spark.newSession(), spark.sparkContext
    session.conf.set("spark.tidegate.pool", "reports")
    before = [context.getLocalProperty(name) for name in ("spark.jobGroup.id", "spark.scheduler.pool")]
    with client.create_task(summed(), **on_spark(session)) as task:
        for _ in range(2):
            task.run_epoch({"numbers": ROWS}).table()
        jobs = sorted(context.statusTracker().getJobIdsForGroup(task.id))
        store = context._jsc.sc().statusStore()
        descriptions = [store.job(job).description().get() for job in jobs]
        assert descriptions == [f"Tidegate task {task.id}, epoch {epoch}" for epoch in (1, 2)]
        (stage,) = context.statusTracker().getJobInfo(jobs[0]).stageIds
        assert store.lastStageAttempt(stage).schedulingPool() == "reports"
    assert [context.getLocalProperty(name) for name in ("spark.jobGroup.id", "spark.scheduler.pool")] == before


def test_a_task_of_this_process_has_no_stages(client: tidegate.Client) -> None:
    with client.create_task(summed(), **on_channels(2)) as task:
        task.run_epoch({"numbers": ROWS}).table()
        assert task.statistics().stages == ()


def test_files_that_statements_read_and_operators_of_loops_are_told_as_they_are_here(
    client: tidegate.Client, spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(chain(3000), tmp_path / "edges.parquet", row_group_size=500)
    rows_of_joins = []
    for options in ({}, on_spark(spark)):
        with client.create_task(counted_edges(), **on_channels(2), **options) as task:
            for _ in range(2):
                task.run_epoch({"edges": str(tmp_path / "edges.parquet")}).table()
            assert task.statistics().progress == {"edges": SourceProgress(rows=3000, total=3000)}
        with client.create_task(PLAN, loops="general", **options) as task:
            for _ in range(2):
                task.run_epoch({"edges": chain(20)}).table()
            rows_of_joins.append(
                {(operator.operator, operator.place): operator.rows_out for operator in of(task, "Join")}
            )
    here, there = rows_of_joins
    assert here == there
    assert here


def counted_edges() -> str:
    return str(plan(summed_rows(edges_read("edges", "a", "b")), "a", "s").json)

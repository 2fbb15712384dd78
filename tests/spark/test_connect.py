"""Over Spark Connect: a client that sees no plans and reads no files of Spark's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.client import Client
from tidegate.spark import Order, Way, feed, register
from tidegate.task import Task

from .conftest import Write, handed_on, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_files_are_staged_where_they_cannot_be_seen_and_the_report_says_so(
    connected: SparkSession, task: Task, table: Write, tmp_path: Path
) -> None:
    rows = {"k": list(range(20)), "v": list(range(20))}
    frame = connected.read.parquet(os.fspath(table(rows)))
    for how in (None, "reference"):
        fed = feed(frame, task, "rows", how=how, staging=tmp_path / "staging")
        assert (fed.way, fed.order) == (Way.STAGED, Order.NOBODY)
        assert "Spark Connect does not show which files the DataFrame reads" in fed.why
        assert [row["k"] for row in rows_of(task)] == rows["k"]


def test_the_data_source_feeds_a_task_and_reads_its_epochs(connected: SparkSession, remote: Client) -> None:
    register(connected)
    with remote.create_task(handed_on()) as task:
        options = {"server": task.address, "task": task.id}
        rows = connected.range(0, 10, 1, 2).selectExpr("id AS k", "id * 10 AS v")
        rows.write.format("tidegate").mode("append").options(**options, source="rows").save()
        read = connected.read.format("tidegate").options(**options, epoch=1).load()
        assert read.collect() == rows.collect()

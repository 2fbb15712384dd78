"""Over Spark Connect: a client that sees no plans and reads no files of Spark's."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.client import Client
from tidegate.spark import Order, Way, feed, register, stream
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


def test_a_stream_feeds_the_batches_of_a_query_once(connected: SparkSession, remote: Client, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    rows = connected.readStream.schema("k long, v long").parquet(str(tmp_path / "rows"))
    with remote.create_task(handed_on()) as task:
        for batch in range(2):
            pq.write_table(pa.table({"k": [batch], "v": [batch]}), tmp_path / "rows" / f"{batch}.parquet")
            for _ in range(2):
                writer = stream(rows, task, "rows", application="orders").trigger(availableNow=True)
                writer.option("checkpointLocation", str(tmp_path / "query")).start().awaitTermination()
            assert task.read_epoch().to_pylist() == [{"k": batch, "v": batch}]
        assert task.info().sealed_epoch == 2


def test_a_stream_that_cannot_be_fed_is_refused_before_it_starts(
    connected: SparkSession, remote: Client, task: Task
) -> None:
    rows = connected.readStream.format("rate").load().selectExpr("value AS k", "value AS v")
    with pytest.raises(tidegate.Refused, match="does not reach a service inside this process"):
        stream(rows, task, "rows", application="orders")
    unnamed = partial(stream, rows, remote.create_task(handed_on()), "rows")
    with pytest.raises(tidegate.InvalidRequest, match="name the query with application="):
        unnamed()

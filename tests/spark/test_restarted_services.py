"""Structured Streaming and the data source go on over a service that is killed and started again: each row once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidegate
import tidegate.spark
from tidegate.task import Task

from ..crash.lives import Forking, Lives
from ..executor.plans import plan, read
from .test_streaming import PAIRS, Rows, epochs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = pa.table({"k": pa.array(range(200_000), pa.int64()), "n": pa.array(range(200_000), pa.int64())})


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    folder = tmp_path / "service"
    folder.mkdir()
    with Forking() as forking:
        lives = Lives(forking, folder, ())
        yield lives
        lives.close()
    assert lives.wrong == []


@pytest.mark.timeout(600)
def test_a_stream_goes_on_over_services_that_are_killed_around_its_transactions(
    spark: SparkSession, lives: Lives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    transact, kills = Task.transact, {1, 3}

    def killed(self: Task, application: str, version: int, *args: Any, **how: Any) -> tidegate.Transacted:
        if version == 1 and version in kills:
            kills.remove(version)
            lives.kill_one()
        done = transact(self, application, version, *args, **how)
        if version in kills:
            kills.remove(version)
            lives.kill_one()
        return done

    monkeypatch.setattr(Task, "transact", killed)
    rows = Rows(spark, tmp_path / "stream")
    for number in range(5):
        rows.add(number)
    with tidegate.connect(lives.address) as client:
        task = client.create_task(PAIRS)
        writer = tidegate.spark.stream(rows.frame(), (lives.address, task.id), "a")
        rows.run(writer)
        assert epochs(task) == [[0], [1], [2], [3], [4]]
    assert not kills


@pytest.mark.timeout(600)
def test_rows_that_were_pushed_to_a_service_that_is_killed_are_pushed_again(
    spark: SparkSession, lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, kills = Task.add_split, [1]

    def killed(self: Task, *args: Any, **how: Any) -> tidegate.Added:
        if kills:
            kills.pop()
            lives.kill_one()
        return add(self, *args, **how)

    monkeypatch.setattr(Task, "add_split", killed)
    with tidegate.connect(lives.address) as client:
        task = client.create_task(plan(read("a", "k", "n"), "k", "n").json)
        frame = spark.createDataFrame(TABLE.slice(0, 1_000).to_pandas()).repartition(2)
        fed = tidegate.spark.feed(frame, task, "a", how="pushed", epoch_by=2)
        assert sum(task.read_epoch().num_rows for _ in fed.epochs) == fed.rows == 1_000
    assert not kills


@pytest.mark.timeout(600)
def test_the_data_source_writes_and_reads_over_services_that_are_killed(spark: SparkSession, lives: Lives) -> None:
    tidegate.spark.register(spark)
    with tidegate.connect(lives.address) as client:
        task = client.create_task(plan(read("a", "k", "n"), "k", "n").json)
        frame = spark.createDataFrame(TABLE.to_pandas()).repartition(2)
        writer = frame.write.format("tidegate").mode("append").option("server", lives.address)
        writer = writer.option("task", task.id).option("source", "a")
        lives.kill_one()
        writer.save()
        lives.kill_one()
        assert task.request_barrier() == 1
        reader = spark.read.format("tidegate").option("server", lives.address).option("task", task.id)
        result = reader.option("epoch", 1).option("partitions", 2).load()
        lives.kill_one()
        assert sorted(row.k for row in result.collect()) == TABLE["k"].to_pylist()
        assert task.read_epoch().num_rows == TABLE.num_rows

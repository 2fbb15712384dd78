"""Structured Streaming into tasks: each batch once, whatever dies in between."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidegate
import tidegate.spark
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.values import TaskInfo
from tidegate.task import Task

from ..executor.plans import passed_through, plan, read, summed
from ..searching import search
from ..server.running import fake_server, remote_client
from ..sparks import PROJECT
from .driving import drive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

PASSED = passed_through("a").json
PAIRS = plan(read("a", "n"), "n").json


def write(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    """Spark takes files in the order of their times."""
    file = folder / f"{number}.json"
    file.write_text("\n".join(map(json.dumps, rows)))
    os.utime(file, (1_000_000 + number, 1_000_000 + number))


class Rows:
    """A folder of JSON files, each of which is a batch of a stream; and a query's checkpoint location beside it."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.files = 0
        (folder / "rows").mkdir(parents=True)

    def add(self, *rows: Any) -> None:
        self.files += 1
        records = [row if isinstance(row, dict) else {"n": row} for row in rows]
        write(self.folder / "rows", self.files, *records)

    def frame(self, schema: str = "n long") -> DataFrame:
        reader = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "rows"))

    def run(self, writer: DataStreamWriter) -> None:
        located = writer.option("checkpointLocation", str(self.folder / "query"))
        located.trigger(availableNow=True).start().awaitTermination()

    def stream(self, task: Task, schema: str = "n long", **how: Any) -> None:
        self.run(tidegate.spark.stream(self.frame(schema), task, "a", **how))


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> Rows:
    return Rows(spark, tmp_path / "stream")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    (tmp_path / "checkpoints").mkdir()
    with tidegate.local(checkpoint_root=tmp_path / "checkpoints") as opened:
        yield opened


def values(table: pa.Table) -> list[int]:
    return table.column(0).to_pylist()


def epochs(task: Task) -> list[list[int]]:
    """All that are sealed and unread."""
    return [values(task.read_epoch()) for _ in range(task.info().sealed_epoch - task.cursor.epoch + 1)]


def test_each_batch_is_an_epoch_and_the_query_goes_on_where_it_was(rows: Rows, client: Client) -> None:
    task = client.create_task(PAIRS)
    rows.add(1, 2)
    rows.add(3)
    rows.stream(task)
    assert epochs(task) == [[1, 2], [3]]
    rows.add(4)
    rows.stream(task)
    assert epochs(task) == [[4]]


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_batch_that_fails_around_its_transaction_is_there_once(
    rows: Rows, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, point: str
) -> None:
    task = client.create_task(PAIRS)
    staging = tmp_path / "staging"
    transact = task.transact

    def broken(application: str, version: int, *args: Any, **how: Any) -> tidegate.Transacted:
        if point == "before" and version == 1:
            raise ConnectionError("the driver has lost its head")
        done = transact(application, version, *args, **how)
        if version == 1:
            raise ConnectionError("the driver has lost its head")
        return done

    for number in (1, 2, 3):
        rows.add(number)
    monkeypatch.setattr(task, "transact", broken)
    with pytest.raises(Exception, match="lost its head"):
        rows.stream(task, staging=staging)
    staged = set(staging.rglob("part-*.parquet"))
    monkeypatch.undo()
    rows.stream(task, staging=staging)
    assert staged < set(staging.rglob("part-*.parquet"))
    assert epochs(task) == [[1], [2], [3]]


def test_batches_are_pushed_to_a_server_by_the_executors(rows: Rows, tmp_path: Path) -> None:
    with remote_client(PlanEngine([], tmp_path)) as client:
        task = client.create_task(PAIRS, spill_quota=4096)
        rows.add(1, 2)
        rows.stream(task)
        assert epochs(task) == [[1, 2]]
        rows.add(*range(1000))
        with pytest.raises(Exception, match=r"an executor.s upload was refused: .* spill_quota"):
            rows.stream(task)


def test_of_two_queries_that_feed_a_task_one_seals(spark: SparkSession, client: Client, tmp_path: Path) -> None:
    task = client.create_task(passed_through("a", "b").json)
    clicks, orders = Rows(spark, tmp_path / "clicks"), Rows(spark, tmp_path / "orders")
    for number in (1, 2):
        clicks.add({"x": number})
        orders.add({"x": 10 * number})
    clicks.run(tidegate.spark.stream(clicks.frame("x long"), task, "a", seals=False))
    assert task.info().sealed_epoch == 0
    orders.run(tidegate.spark.stream(orders.frame("x long"), task, "b"))
    assert [sorted(epoch) for epoch in epochs(task)] == [[1, 2, 10], [20]]


def test_change_columns_keep_a_view_up_to_date(rows: Rows, client: Client) -> None:
    task = client.create_task(plan(summed(read("a", "k", "n")), "k", "n").json, mode="continuous", max_pending_epochs=9)
    rows.add({"k": 1, "n": 5, "_change_type": "insert"}, {"k": 1, "n": 7, "_change_type": "insert"})
    rows.add({"k": 1, "n": 5, "_change_type": "update_preimage"}, {"k": 1, "n": 6, "_change_type": "update_postimage"})
    rows.add({"k": 1, "n": 7, "_change_type": "delete"})
    rows.stream(task, "k long, n long, _change_type string", change_column="_change_type")
    changes = [task.read_epoch().to_pylist() for _ in range(3)]
    assert [[row["n"] for row in change if row["_weight"] > 0] for change in changes] == [[12], [13], [6]]


def test_the_querys_checkpoint_and_the_tasks_agree(rows: Rows, client: Client) -> None:
    with client.create_task(PAIRS) as task:
        rows.add(1)
        rows.add(2)
        rows.stream(task, checkpoint="last")
        assert epochs(task) == [[1], [2]]
    rows.add(3)
    restored = client.create_task(PAIRS, restore=f"{task.id}/last")
    rows.stream(restored, checkpoint="last")
    assert (restored.cursor.epoch, epochs(restored)) == (3, [[3]])


def test_a_task_that_lacks_batches_of_the_query_refuses_to_go_on(rows: Rows, client: Client) -> None:
    with client.create_task(PAIRS) as task:
        rows.add(1)
        rows.stream(task)
    rows.add(2)
    new = client.create_task(PAIRS)
    with pytest.raises(Exception, match="the versions between the two would be lost"):
        rows.stream(new)
    rows.stream(new, gaps=True)
    assert epochs(new) == [[2]]


def test_a_query_that_begins_anew_under_a_name_in_use_is_refused_and_not_skipped(rows: Rows, client: Client) -> None:
    task = client.create_task(PAIRS)
    rows.add(1)
    rows.add(2)
    rows.stream(task, application="orders")
    shutil.rmtree(rows.folder / "query")
    with pytest.raises(Exception, match="the query runs on another checkpoint location"):
        rows.stream(task, application="orders")
    assert epochs(task) == [[1], [2]]


def test_a_batch_waits_until_somebody_has_read(rows: Rows, client: Client) -> None:
    task = client.create_task(PAIRS, max_pending_epochs=1)
    rows.add(1)
    rows.add(2)
    with pytest.raises(Exception, match="max_pending_epochs"):
        rows.stream(task, wait=0.2)
    assert epochs(task) == [[1]]
    rows.stream(task, wait=0.2)
    assert epochs(task) == [[2]]


def test_a_frame_that_does_not_stream_is_refused(spark: SparkSession, client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="feed"):
        tidegate.spark.stream(spark.range(3), client.create_task(PAIRS), "a")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kills",
    [(("after", 1),), pytest.param((("before", 0), ("before", 1), ("after", 1), ("after", 2)), marks=search)],
    ids=["once", "in every place"],
)
def test_a_driver_that_is_killed_and_started_again_loses_and_doubles_nothing(
    kills: tuple[tuple[str, int], ...], spark: SparkSession, tmp_path: Path
) -> None:
    """The last driver, which nobody kills, is this process."""
    (tmp_path / "rows").mkdir()
    for number in range(3):
        write(tmp_path / "rows", number, {"n": number})
    with (
        fake_server(PlanEngine([], tmp_path)) as address,
        tidegate.connect(address) as client,
        client.create_task(PAIRS) as task,
    ):
        for how in kills:
            assert _drive(tmp_path, address, task.info(), *how) < 0
        drive(spark, tmp_path, address, task.id)
        assert epochs(task) == [[0], [1], [2]]


def _drive(folder: Path, address: str, task: TaskInfo, point: str, batch: int) -> int:
    command = [sys.executable, "-m", "tests.spark.streaming_driver", str(folder), address, task.id, point, str(batch)]
    return subprocess.run(command, cwd=PROJECT, check=False, timeout=280).returncode

"""Channels on Spark: their memory, more of them than a service runs itself, and those that the service chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from pyspark.sql import SparkSession

import tidegate
from tests.on_channels import on_spark
from tidegate.executor.api.checked_options import SMALLEST_MEMORY
from tidegate.planner.cut import chosen_channels as choice

from ...on_channels import on_channels

MIB = 1 << 20
NUMBERS = np.arange(2_000_000)
ROWS = pa.table({"k": NUMBERS * 7_919 % 2_000_003, "v": NUMBERS % 7})
READ = sub.read_named_table("t", {"k": sub.i64, "v": sub.i64})
MANY = READ.group_by("k").agg(sub.f.sum(sub.col("v")).alias("total")).to_plan()
FEW = READ.group_by("v").agg(sub.f.sum(sub.col("k")).alias("total")).to_plan()
AUTO: dict[str, Any] = {"channels": "auto", "parallel_threshold_seconds": 0.0}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as local_client:
        yield local_client


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    path = tmp_path_factory.mktemp("rows") / "t.parquet"
    pq.write_table(ROWS, path, row_group_size=20_000)
    return {"t": str(path)}


def runs(task: tidegate.Task) -> int:
    """The largest number of channels of a pipeline that have run."""
    return max(operator.runs for operator in task.statistics().operators if operator.operator == "Stage")


def test_groups_that_spill_depend_on_the_memory_of_a_slot_and_not_on_where_it_is(
    client: tidegate.Client, spark: SparkSession, splits: Mapping[str, str]
) -> None:
    """DuckDB gives them in an order that depends on its memory limit."""

    def rows(slot_memory: int, **options: Any) -> pa.Table:
        memory = {"slot_memory": slot_memory, "memory_limit": 4 << 30}
        with client.create_task(MANY, **on_channels(2), **memory, **options) as task:
            return task.run_epoch(splits).table()

    here = rows(SMALLEST_MEMORY)
    assert rows(SMALLEST_MEMORY, **on_spark(spark)) == here
    assert rows(512 * MIB) != here


def test_more_channels_than_a_service_runs_itself_have_memory_for_each_slot(
    client: tidegate.Client, spark: SparkSession, splits: Mapping[str, str]
) -> None:
    options: dict[str, Any] = {**on_channels(70), "memory_limit": 64 * MIB, **on_spark(spark)}
    with client.create_task(FEW, **options) as task:
        assert task.options.slot_memory == 64 * MIB
        assert task.run_epoch(splits).table().sort_by("v") == client.query(FEW, splits).sort_by("v")
        assert runs(task) == 70


@pytest.mark.parametrize(("channel_bytes", "few"), [(1 << 30, True), (10_000_000, False)])
def test_channels_are_chosen_by_bytes_and_give_the_rows_of_as_many_that_are_asked_for(
    client: tidegate.Client,
    spark: SparkSession,
    splits: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    channel_bytes: int,
    few: bool,
) -> None:
    monkeypatch.setattr(choice, "LEAST_BYTES", channel_bytes)
    monkeypatch.setattr(choice, "MOST_BYTES", channel_bytes)
    with client.create_task(FEW, **AUTO, **on_spark(spark)) as task:
        options = task.options
        assert (options.channels, options.auto_cores, options.slot_memory) == (1024, 2, options.memory_limit)
        rows, channels = task.run_epoch(splits).table(), runs(task)
    assert channels == 1 if few else 2 < channels < 14
    room = {"slot_memory": options.slot_memory, "memory_limit": 1 << 40}
    with client.create_task(FEW, **on_channels(channels), **room) as task:
        assert task.run_epoch(splits).table() == rows

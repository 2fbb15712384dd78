"""Pushed: executors send rows to the service; neither retries nor arrival show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate.client import Client
from tidegate.spark import Order, Way, feed

from .conftest import handed_on, rows_of
from .test_staged import computed, failing_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_small_results_are_pushed_in_the_order_of_partitions(
    spark: SparkSession, remote: Client, tmp_path: Path
) -> None:
    task = remote.create_task(handed_on())
    fed = feed(computed(spark), task, "rows", staging=tmp_path)
    assert (fed.way, fed.order, fed.rows) == (Way.PUSHED, Order.SPARK, 100)
    assert rows_of(task) == [row.asDict() for row in computed(spark).collect()]


def test_an_attempt_that_is_killed_in_mid_push_brings_no_row_twice(
    spark: SparkSession, remote: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = remote.create_task(handed_on())
    fed = feed(failing_once(computed(spark), tmp_path / "failed"), task, "rows", how="pushed")
    assert fed.rows == 100
    assert (tmp_path / "failed").exists()
    assert [row["k"] for row in rows_of(task)] == list(range(100))


def test_what_was_pushed_gives_its_room_back_when_it_is_acknowledged(spark: SparkSession, remote: Client) -> None:
    task = remote.create_task(handed_on(), spill_quota=20_000)  # three files of 4 KiB each, but not six
    for number in range(1, 5):
        assert feed(computed(spark), task, "rows", how="pushed").epoch == number
        assert len(rows_of(task)) == 100
        task.acknowledge(tidegate.Cursor(number + 1, 0))


def test_rows_that_are_computed_anew_are_no_transaction_of_several_epochs(spark: SparkSession, remote: Client) -> None:
    task = remote.create_task(handed_on())
    with pytest.raises(tidegate.InvalidRequest, match="each feed computes pushed rows anew"):
        feed(computed(spark), task, "rows", how="pushed", epoch_by=1, transaction="monday")


def test_a_refusal_of_the_service_is_the_drivers_error(spark: SparkSession, remote: Client) -> None:
    task = remote.create_task(handed_on(), spill_quota=100)
    with pytest.raises(tidegate.Exhausted, match=r"an executor.s upload was refused: .* spill_quota") as refused:
        feed(computed(spark), task, "rows", how="pushed")
    assert refused.value.reason == "UPLOAD_TOO_LARGE"


def test_rows_sorted_by_a_column_are_pushed_in_its_order(spark: SparkSession, remote: Client) -> None:
    task = remote.create_task(handed_on())
    fed = feed(computed(spark).repartition(4), task, "rows", how="pushed", order_by="k")
    assert fed.order is Order.SORTED
    assert [row["k"] for row in rows_of(task)] == list(range(100))


def test_executors_do_not_reach_a_service_of_the_drivers_process(spark: SparkSession, client: Client) -> None:
    with pytest.raises(tidegate.Refused, match="inside this process") as refused:
        feed(computed(spark), client.create_task(handed_on()), "rows", how="pushed")
    assert refused.value.reason == "NOT_REACHABLE"

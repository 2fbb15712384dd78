"""Windows of time on Spark: the same rows in the same order as in a task of this process."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from pyspark.sql import SparkSession

import tidegate
from tests.on_channels import on_spark
from tidegate import windows

from ...windows.naive import Calendar, Spans
from ...windows.running import SEVERAL, TIMES, events, plan


@pytest.mark.parametrize(
    ("spans", "measures"),
    [(Spans(60, 60), ["sum", "mean"]), (Spans(60, 7), ["sum", "mean"]), (Spans(60, 20), ["sum", "distinct"])],
)
def test_windows_on_spark_are_those_of_this_process(
    spans: Spans, measures: list[str], client: tidegate.Client, spark: SparkSession
) -> None:
    rows = [(number * 37 % 1_009 - 500, f"key {number * 31 % 97}", number % 11) for number in range(5_000)]
    kind = TIMES["microseconds"]
    splits = [events(kind, rows[:2_001]), events(kind, rows[2_001:])]
    tables = []
    for options in ({}, on_spark(spark)):
        with client.create_task(plan(kind, spans, ["k"], measures), **SEVERAL[2], **options) as task:
            tables.append(task.run_epoch({"events": splits}).table())
    local, remote = tables
    assert local.num_rows > 1_000
    assert remote.equals(local)


def test_windows_of_a_number_of_rows_on_spark_are_those_of_this_process(
    client: tidegate.Client, spark: SparkSession
) -> None:
    rows = [(number * 37 % 1_009 - 500, f"key {number * 31 % 97}", number % 11) for number in range(5_000)]
    source = sub.read_named_table("events", {"t": sub.i64, "k": sub.string, "v": sub.i64})
    frame = windows.count(source, "t", 9, 6, keys=["k"], measures=[sub.f.sum(sub.col("v")).alias("sum")])
    tables = []
    for options in ({}, on_spark(spark)):
        with client.create_task(frame.to_plan(), **SEVERAL[2], **options) as task:
            tables.append(task.run_epoch({"events": events(TIMES["i64"], rows)}).table())
    local, remote = tables
    assert local.num_rows > 800
    assert remote.equals(local)


def test_days_and_months_on_spark_are_those_of_this_process(client: tidegate.Client, spark: SparkSession) -> None:
    kind = TIMES["zoned microseconds"]
    rows = [(number * 3_700_000_000 * 17, f"key {number * 31 % 97}", number % 11) for number in range(5_000)]
    for unit in ("days", "months"):
        calendar = Calendar(unit, 3, 2, 1, "America/Havana", Fraction(1))
        tables = []
        for options in ({}, on_spark(spark)):
            with client.create_task(plan(kind, calendar, ["k"], ["sum", "mean"]), **SEVERAL[2], **options) as task:
                tables.append(task.run_epoch({"events": events(kind, rows)}).table())
        local, remote = tables
        assert local.num_rows > 1_000
        assert remote.equals(local)


def test_tumbling_windows_by_whole_numbers_on_spark_are_those_of_this_process(
    client: tidegate.Client, spark: SparkSession
) -> None:
    """Both group them in arrays."""
    numbers = range(5_000)
    times, keys = ([number * 37 % 1_009 - 500 for number in numbers], [number * 31 % 97 for number in numbers])
    rows = pa.table({"t": times, "k": keys, "v": [number % 11 for number in numbers]})
    source = sub.read_named_table("events", {"t": sub.i64, "k": sub.i64, "v": sub.i64})
    frame = windows.tumbling(source, "t", 60, keys=["k"], measures=[sub.f.sum(sub.col("v")).alias("sum")])
    tables = []
    for options in ({}, on_spark(spark)):
        with client.create_task(frame.to_plan(), **SEVERAL[2], **options) as task:
            tables.append(task.run_epoch({"events": [rows.slice(0, 2_001), rows.slice(2_001)]}).table())
    local, remote = tables
    assert local.num_rows > 1_000
    assert remote.equals(local)

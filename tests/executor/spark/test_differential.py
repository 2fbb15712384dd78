"""Plans on Spark: the rows and their order are those of this process, whatever the channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.conformance import repeats, tpch
from tests.on_channels import on_spark
from tidegate.operators.arrays.digest import digest

from ...on_channels import on_channels

CHANNELS = (1, 2, 3)
Answer = Callable[..., list[str]]


@pytest.fixture
def answer(client: tidegate.Client, files: dict[str, Path]) -> Answer:
    """The digests of two epochs of a TPC-H query's plan, both over the same files."""

    def run(query: str, **options: object) -> list[str]:
        with client.create_task(tpch.plan_bytes("duckdb", query), **options) as task:
            splits = {name: str(files[name.lower()]) for name in task.sources}
            tables = [task.run_epoch(splits).table() for _ in range(2)]
            return [digest(table.schema, table.to_batches()) for table in tables]

    return run


@pytest.mark.parametrize("query", ["q01", "q05", "q08", "q11", "q13", "q18"])
def test_a_plan_has_the_local_rows_in_the_local_order(query: str, answer: Answer, spark: SparkSession) -> None:
    channels = CHANNELS[int(query[1:]) % len(CHANNELS)]
    assert answer(query, **on_spark(spark), **on_channels(channels)) == answer(query, **on_channels(channels))


def test_a_union_of_parts_of_files_has_the_local_rows_in_the_local_order(
    client: tidegate.Client, spark: SparkSession, tmp_path: Path
) -> None:
    """Whatever reads which of its files first."""
    query, shape = repeats.repeated(100_000)["union"], repeats.SHAPES["three shares of parts"]
    here = repeats.digests(client, query, shape, tmp_path, runs=3)
    there = repeats.digests(client, query, shape, tmp_path, runs=2, **on_spark(spark))
    assert len(here.keys() | there.keys()) == 1


def test_rows_of_a_call_are_read_where_the_channels_are(
    client: tidegate.Client, spark: SparkSession, files: dict[str, Path]
) -> None:
    plan = tpch.plan_bytes("duckdb", "q06")
    rows = pq.read_table(files["lineitem"])
    with (
        client.create_task(plan, **on_channels(3)) as here,
        client.create_task(plan, **on_channels(3), **on_spark(spark)) as there,
    ):
        (source,) = here.sources
        assert there.run_epoch({source: rows}).table().equals(here.run_epoch({source: rows}).table())


def test_statistics_are_those_of_the_channels_and_each_counts_once(
    client: tidegate.Client, spark: SparkSession, files: dict[str, Path]
) -> None:
    """Beside them are those of Spark's stages."""
    plan = tpch.plan_bytes("duckdb", "q01")
    counted = []
    for options in ({}, on_spark(spark)):
        with client.create_task(plan, **on_channels(2), **options) as task:
            task.run_epoch({name: str(files[name.lower()]) for name in task.sources})
            operators = task.statistics().operators
        counted.append(
            sorted(
                (operator.operator, operator.place, operator.rows_in, operator.rows_out, operator.runs)
                for operator in operators
                if operator.operator != "Stage"
            )
        )
    assert counted[0] == counted[1]

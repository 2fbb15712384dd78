"""Small epochs of tasks on Spark: the service runs them itself, unless the executors have something that it lacks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.conformance import tpch
from tests.executor import plans
from tests.executor.test_user_operators import SUMS, Sums, summed
from tests.executor.test_write import writing
from tidegate.operators.arrays.digest import digest

from ...loops.queries import SCHEMAS, Looped, Query
from ...on_channels import on_channels, on_spark

SUM = plans.plan(plans.summed(plans.read("t", "k", "v")), "k", "s").json
JOIN = plans.plan(plans.joined(plans.read("t", "k", "v"), plans.read("side", "k", "v"), 2), "k", "v", "l", "w").json
FEW = pa.table({"k": [at % 7 for at in range(1_000)], "v": range(1_000)})
BYTES = pa.ipc.get_record_batch_size(FEW.to_batches()[0])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tidegate.Client]:
    operators = {"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}
    with tidegate.local(operators=operators, write_root=tmp_path) as local_client:
        yield local_client


def jobs(spark: SparkSession, task: tidegate.Task) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(task.id))


def test_an_epoch_of_few_rows_takes_no_job_and_says_so(client: tidegate.Client, spark: SparkSession) -> None:
    with client.create_task(SUM, executor="spark", spark=spark, **on_channels(2)) as task:
        small = task.run_epoch({"t": FEW})
        assert (jobs(spark, task), small.statistics.on_spark, task.statistics().stages) == (0, False, ())
        large = task.run_epoch({"t": pa.concat_tables([FEW] * 100)})
        assert (jobs(spark, task), large.statistics.on_spark, bool(task.statistics().stages)) == (1, True, True)
        again = task.run_epoch({"t": FEW})
        assert (jobs(spark, task), again.statistics.on_spark, task.statistics().stages) == (1, False, ())
        reads = [counted.rows_in for counted in task.statistics().operators if counted.operator == "Fragment"]
    assert small.table() == again.table()
    assert max(reads) == 102_000


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("query", ["q03", "q13", "q15", "q18"])
def test_small_epochs_have_the_rows_and_the_order_of_those_that_spark_runs(
    query: str, channels: int, client: tidegate.Client, spark: SparkSession, files: dict[str, Path]
) -> None:
    """`orders` is a static table, whose kept rows are made where the epoch runs."""
    digests = []
    for threshold in (1 << 40, 0):
        options: dict[str, Any] = {**on_channels(channels), **on_spark(spark), "spark_threshold_bytes": threshold}
        plan, table = tpch.plan_bytes("duckdb", query), str(files["orders"])
        tables = {"orders": table} if query in ("q03", "q13", "q18") else {}
        with client.create_task(plan, tables=tables, **options) as task:
            splits = {name: str(files[name.lower()]) for name, source in task.sources.items() if not source.static}
            epochs = [task.run_epoch(splits) for _ in range(2)]
            assert {epoch.statistics.on_spark for epoch in epochs} == {threshold == 0}
            assert len({epoch.statistics.rows_in for epoch in epochs}) == 1
            digests += [digest(rows.schema, rows.to_batches()) for rows in map(tidegate.Epoch.table, epochs)]
    assert len(set(digests)) == 1


@pytest.mark.parametrize(("more", "on_spark_"), [(0, True), (1, False)])
def test_the_bytes_of_splits_and_static_tables_alone_decide(
    more: int, on_spark_: bool, client: tidegate.Client, spark: SparkSession
) -> None:
    threshold = {**on_spark(spark), "spark_threshold_bytes": 2 * BYTES + more}
    with client.create_task(JOIN, tables={"side": FEW}, **threshold) as task:
        assert task.run_epoch({"t": FEW}).statistics.on_spark is on_spark_
        assert not task.run_epoch({"t": FEW.slice(0, 900)}).statistics.on_spark


def test_many_rows_that_a_file_packs_into_few_bytes_are_many(
    client: tidegate.Client, spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"k": [1] * 100_000, "v": [1] * 100_000}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10_000
    for rows, spark_runs_it in ((60_000, False), (70_000, True)):
        with client.create_task(SUM, executor="spark", spark=spark) as task:
            split = tidegate.FileSplit(str(tmp_path / "t.parquet"), rows=(0, rows))
            assert task.run_epoch({"t": split}).statistics.on_spark is spark_runs_it


@pytest.mark.parametrize(
    ("plan", "options", "why"),
    [
        (SUM, {"spark_threshold_bytes": 0}, "spark_threshold_bytes is 0"),
        (writing(plans.read("t", "k", "v")).json, {}, "the executors write its rows"),
        (summed(), {}, "the executors have operator 'sums'"),
    ],
    ids=["zero", "writes", "operator"],
)
def test_what_only_executors_have_keeps_small_epochs_on_spark(
    plan: Any, options: Mapping[str, Any], why: str, client: tidegate.Client, spark: SparkSession
) -> None:
    on = {"executor": "spark", "spark": spark, **options}
    document = json.loads(client.explain(plan, executor="spark", **options).json)["spark"]
    assert (document["service_below_bytes"], document["always"]) == (0, why)
    with client.create_task(plan, **on) as task:
        (source,) = task.sources
        epoch = task.run_epoch({source: FEW})
        assert (epoch.statistics.on_spark, jobs(spark, task)) == (True, 1)


def test_explain_says_how_small_an_epoch_without_a_job_is(client: tidegate.Client) -> None:
    explained = client.explain(SUM, executor="spark", spark_threshold_bytes=1 << 20)
    assert "  no job for an epoch whose inputs have less than 1,048,576 bytes: the service runs it\n" in explained.text
    assert json.loads(explained.json)["spark"]["service_below_bytes"] == 1 << 20


def test_a_small_epoch_that_does_not_end_is_cancelled(client: tidegate.Client, spark: SparkSession) -> None:
    body = "select e.b as a, e.b from x join edges e on x.b = e.a"
    endless = Query({"x": Looped(body, "select a, b from seeds", rounds=1_000_000_000)}).plan()
    rows = {"edges": pa.Table.from_pylist([{"a": 0, "b": 1, "c": 1}, {"a": 1, "b": 0, "c": 1}], SCHEMAS["edges"])}
    rows["seeds"] = pa.Table.from_pylist([{"a": 0, "b": 0}], SCHEMAS["seeds"])
    with client.create_task(endless, executor="spark", spark=spark, loops="general") as task:
        for source, table in rows.items():
            task.add_split(source, table)
        task.request_barrier()
        stopping = threading.Timer(1.0, task.cancel)
        stopping.start()
        with pytest.raises(tidegate.TaskCancelled):
            task.read_epoch()
        stopping.join()
        assert jobs(spark, task) == 0

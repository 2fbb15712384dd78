"""No row of a file passes the service on its way to the answer: counted where files are read, and by the system."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from pyspark.sql import SparkSession

import tidegate
from tests.conformance import tpch
from tests.executor.test_user_operators import ROWS, SUMS, Sums, summed
from tests.graph.executors import PassOn
from tests.on_channels import on_spark
from tidegate import TaskGraph
from tidegate.executor.spark.staged_files import StagedRows
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings

from ...on_channels import on_channels

QUERY = tpch.plan_bytes("duckdb", "q10")
"""Joins of both kinds, an aggregate and a sort."""
OPERATOR = summed()
_LITTLE = 1_000_000


@dataclass
class Seen:
    """Of this process: databases that it has taken to read files in, rows of results, and the bytes that it has read or
    written, as the system counts them.
    """

    databases: int = 0
    results: int = 0
    moved: int = 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    counted = Seen()
    take, read = InstancePool.take, StagedRows.read

    def counted_take(self: InstancePool, settings: InstanceSettings) -> Instance:
        counted.databases += 1
        return take(self, settings)

    def counted_read(self: StagedRows) -> Generator[pa.RecordBatch]:
        for batch in read(self):
            counted.results += batch.num_rows
            yield batch

    monkeypatch.setattr(InstancePool, "take", counted_take)
    monkeypatch.setattr(StagedRows, "read", counted_read)
    return counted


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(operators={"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}) as local_client:
        yield local_client


@pytest.fixture(scope="module")
def splits(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With ten times the line items, so that no footer is as large as what is read of them."""
    folder = tmp_path_factory.mktemp("large")
    items = pa.concat_tables([pq.read_table(files["lineitem"])] * 10)
    pq.write_table(items, folder / "lineitem.parquet", row_group_size=100_000)
    pq.write_table(ROWS, folder / "numbers.parquet")
    return {name: str(files.get(name, "")) for name in files} | {
        name: str(folder / f"{name}.parquet") for name in ("lineitem", "numbers")
    }


def _moved() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"]) + int(counters["wchar"])


def _epoch(client: tidegate.Client, plan: bytes, splits: dict[str, str], seen: Seen, **options: object) -> pa.Table:
    """The second epoch of a task is counted: before it modules are read too."""
    with client.create_task(plan, **on_channels(2), **options) as task:
        seen.databases = 0  # the plan's statements were tried
        fed = {name: splits[name.lower()] for name in task.sources}
        task.run_epoch(fed).table()
        seen.results = 0
        before = _moved()
        answer = task.run_epoch(fed).table()
        seen.moved = _moved() - before
        return answer


@pytest.mark.parametrize("plan", [QUERY, OPERATOR], ids=["a query", "an operator"])
def test_no_row_of_a_file_passes_the_service(
    plan: bytes, client: tidegate.Client, spark: SparkSession, splits: dict[str, str], seen: Seen
) -> None:
    """Only those of the answer are read, once."""
    answer = _epoch(client, plan, splits, seen, **on_spark(spark))
    assert seen.databases == 0
    assert seen.results == answer.num_rows > 0
    assert seen.moved < _LITTLE


def test_no_row_of_a_written_table_passes_the_service(
    spark: SparkSession, splits: dict[str, str], seen: Seen, tmp_path: Path
) -> None:
    rows = sub.read_named_table("numbers", {"k": sub.i64, "v": sub.i64})
    plan = bytes(rows.write_named_table(["copy"]).to_plan().SerializeToString())
    with tidegate.local(write_root=tmp_path) as client:
        _epoch(client, plan, splits, seen, **on_spark(spark))
    assert (seen.databases, seen.results) == (0, 0)
    assert pq.read_table(tmp_path / "copy").num_rows == 2 * pq.read_metadata(splits["numbers"]).num_rows
    assert ROWS.nbytes > 3 * _LITTLE
    assert seen.moved < _LITTLE


def test_no_row_of_a_dataset_passes_the_service(
    client: tidegate.Client, spark: SparkSession, splits: dict[str, str], seen: Seen
) -> None:
    """Neither when it is made nor when another graph reads it."""
    for _ in range(2):  # before the second one modules are read too
        kept_graph, read = TaskGraph(), TaskGraph()
        kept_graph.blocking(
            "kept", PassOn, kept_graph.read_parquet(splits["numbers"]), channels=2, partition=tidegate.SPREAD
        )
        before = _moved()
        dataset = client.run_graph(kept_graph, **on_spark(spark))
        read.collect(read.count("count", read.read_dataset(dataset), channels=2))
        counted = client.run_graph(read, **on_spark(spark))
        seen.moved = _moved() - before
    assert counted.table().to_pylist() == [{"count": ROWS.num_rows}]
    assert dataset.size > 3 * _LITTLE
    assert (seen.databases, seen.results) == (0, 0)
    assert seen.moved < _LITTLE


def test_the_counters_count_what_a_task_in_this_process_reads(
    client: tidegate.Client, splits: dict[str, str], seen: Seen
) -> None:
    _epoch(client, QUERY, splits, seen)
    assert seen.databases > 0
    assert seen.moved > _LITTLE


def test_stages_count_their_tasks_and_what_they_send(
    client: tidegate.Client, spark: SparkSession, splits: dict[str, str]
) -> None:
    with client.create_task(OPERATOR, **on_channels(2), **on_spark(spark)) as task:
        task.run_epoch({"numbers": splits["numbers"]}).table()
        stages = {operator.place: operator for operator in task.statistics().operators if operator.operator == "Stage"}
    reading, summing = stages["pipeline 1"], stages["pipeline 2"]
    assert reading.bytes_out > 0
    assert (reading.rows_in, reading.rows_out) == (ROWS.num_rows, ROWS.num_rows)
    assert (summing.runs, summing.rows_in, summing.bytes_out) == (2, 0, 0)

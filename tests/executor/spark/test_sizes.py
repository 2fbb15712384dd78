"""The cost of an epoch beside its work: bytes in shuffles, files in the staging place, memory of the service; counted
over so much data and twice as much, on one, two and four channels.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.executor.test_user_operators import ROWS, SUMS, Sums, summed
from tidegate.executor.spark.spark_cluster import SparkCluster

from ...on_channels import on_channels

CHANNELS = (1, 2, 4)
HEADERS = 0.1
"""The most that parcels are larger than the rows in them."""
MEMORY = 4 << 20
"""Less than what is moved, of twice the rows."""


@dataclass(frozen=True)
class Cost:
    """Bytes `moved` to shuffles, `rows` and `size` of what went through exchanges, `files` in the staging place when
    the job has ended, `results` that it gave, `memory` that Python took at most.
    """

    moved: int
    rows: int
    size: int
    files: int
    results: int
    memory: int


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(operators={"sums": tidegate.user_operator(Sums, schema=SUMS, partition="c0")}) as local_client:
        yield local_client


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, str]:
    """The files of a table, by how often they have its rows."""
    folder = tmp_path_factory.mktemp("numbers")
    for times in (1, 2):
        pq.write_table(pa.concat_tables([ROWS] * times), folder / f"{times}.parquet", row_group_size=50_000)
    return {times: str(folder / f"{times}.parquet") for times in (1, 2)}


@pytest.fixture(scope="module")
def costs(client: tidegate.Client, spark: SparkSession, numbers: Mapping[int, str]) -> Mapping[tuple[int, int], Cost]:
    """By channels, and how often the rows are there."""
    return {
        (channels, times): cost(client, spark, numbers[times], channels) for channels in CHANNELS for times in (1, 2)
    }


def cost(client: tidegate.Client, spark: SparkSession, numbers: str, channels: int) -> Cost:
    spied: list[tuple[int, int]] = []
    run: Callable[..., Any] = SparkCluster._results

    def counted(self: SparkCluster, stages: Any, epoch: int, epoch_input: Any, folder: Path, target: Any) -> Any:
        results = run(self, stages, epoch, epoch_input, folder, target)
        spied.append((len(list(folder.iterdir())), len(results)))
        return results

    with (
        pytest.MonkeyPatch.context() as patch,
        client.create_task(summed(), **on_channels(channels), executor="spark", spark=spark) as task,
    ):
        patch.setattr(SparkCluster, "_results", counted)
        tracemalloc.start()
        try:
            task.run_epoch({"numbers": numbers}).table()
            memory = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        operators = task.statistics().operators
    ((files, results),) = spied
    exchanges = [operator for operator in operators if operator.operator == "Exchange"]
    return Cost(
        moved=sum(operator.bytes_out for operator in operators if operator.operator == "Stage"),
        rows=sum(exchange.rows_in for exchange in exchanges),
        size=sum(exchange.bytes_in for exchange in exchanges),
        files=files,
        results=results,
        memory=memory,
    )


@pytest.mark.parametrize("channels", CHANNELS[1:])
def test_bytes_in_shuffles_are_those_of_the_rows_whatever_the_channels(
    channels: int, costs: Mapping[tuple[int, int], Cost]
) -> None:
    """Each row of an exchange is moved once, with a header for each parcel of thousands."""
    for times in (1, 2):
        measured = costs[channels, times]
        assert measured.rows == times * ROWS.num_rows
        assert measured.size <= measured.moved <= (1 + HEADERS) * measured.size
    assert costs[channels, 2].moved == pytest.approx(2 * costs[channels, 1].moved, rel=HEADERS)


def test_one_channel_moves_nothing(costs: Mapping[tuple[int, int], Cost]) -> None:
    assert [costs[1, times].moved for times in (1, 2)] == [0, 0]


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("times", [1, 2])
def test_files_are_one_for_each_channel_of_the_result(
    channels: int, times: int, costs: Mapping[tuple[int, int], Cost]
) -> None:
    measured = costs[channels, times]
    assert (measured.files, measured.results) == (channels, channels)


@pytest.mark.parametrize("channels", CHANNELS)
def test_the_service_s_memory_is_that_of_plans_and_counters(
    channels: int, costs: Mapping[tuple[int, int], Cost]
) -> None:
    assert costs[channels, 2].memory < MEMORY

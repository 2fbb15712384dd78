"""Loaders over real plans, in this process and over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine

from ...server.running import embedded_client, remote_client

SPLIT_ROWS = [70, 1, 30, 0, 25, 44]


@pytest.fixture(scope="module", params=["embedded", "grpc"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    opener = {"embedded": embedded_client, "grpc": remote_client}[request.param]
    with opener(PlanEngine(["/"], tmp_path_factory.mktemp("spill"))) as opened:
        yield opened
        assert opened.tasks() == () or list(opened.tasks()) == [], "loaders have left tasks behind"


@pytest.fixture(scope="module")
def local_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with embedded_client(PlanEngine(["/"], tmp_path_factory.mktemp("spill"))) as opened:
        yield opened


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files of `SPLIT_ROWS` rows, numbered through; their row groups are joined into one piece each."""
    folder = tmp_path_factory.mktemp("samples")
    first = 0
    for number, rows in enumerate(SPLIT_ROWS):
        table = pa.table({"n": pa.array(range(first, first + rows), pa.int64())})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=8)
        first += rows
    return folder


def numbers() -> bytes:
    """All rows of `samples(n)`."""
    return bytes(sub.read_named_table("samples", {"n": sub.i64}).to_plan().SerializeToString())


def kept() -> bytes:
    """The rows of `samples(n)` whose n is above 40 and does not end with 7."""
    samples = sub.read_named_table("samples", {"n": sub.i64})
    return bytes(samples.filter((sub.col("n") > 40) & (sub.col("n") % 10 != 7)).to_plan().SerializeToString())

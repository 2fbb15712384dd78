"""Fixtures of the tests of feeding: services, plans that hand rows on, tables of a few files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.task import Task

from ..server.running import remote_client

Write = Callable[..., Path]

KV = {"k": sub.i64, "v": sub.i64}


def handed_on(columns: dict[str, object] = KV, name: str = "rows") -> bytes:
    """A plan that answers with the rows of a source as they are, in their order."""
    return bytes(sub.read_named_table(name, columns).select(*columns).to_plan().SerializeToString())


@pytest.fixture
def client() -> Iterator[Client]:
    with tidegate.local() as opened:
        yield opened


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Client]:
    """Over gRPC, so that executors reach the service."""
    spill = tmp_path / "server"
    spill.mkdir()
    with remote_client(PlanEngine(["/"], spill)) as opened:
        yield opened


@pytest.fixture
def task(client: Client) -> Task:
    return client.create_task(handed_on())


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Writes a table of Parquet files: `table(first, second, row_group_size=...)`."""

    def write(*parts: pa.Table | dict[str, list[object]], folder: str = "table", **options: object) -> Path:
        folder_path = tmp_path / folder
        folder_path.mkdir(parents=True, exist_ok=True)
        for number, part in enumerate(parts):
            rows = part if isinstance(part, pa.Table) else pa.table(part)
            pq.write_table(rows, folder_path / f"part-{number}.parquet", **options)
        return folder_path

    return write


def rows_of(task: Task) -> list[dict[str, object]]:
    """Of the open epoch, sealed and read."""
    task.request_barrier()
    return task.read_epoch().to_pylist()

"""Rows from a stream: many of them travel as a file, and are never in memory all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.service.embedded import open_service
from tidegate.splits import INLINE_BYTES

from ..executor.plans import passed_through
from ..server.running import served

MIB = 1 << 20
ROWS = MIB // 8
BATCHES = 48
SCHEMA = pa.schema([("x", pa.int64())])


class Watched:
    """A stream of 48 MiB, made while it is read. `most` is the most that Arrow had while it was read."""

    def __init__(self, batches: int = BATCHES) -> None:
        self._batches = batches
        self._before = pa.total_allocated_bytes()
        self.most = 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(SCHEMA, self._rows()).__arrow_c_stream__(requested_schema)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for number in range(self._batches):
            self.most = max(self.most, pa.total_allocated_bytes() - self._before)
            yield pa.record_batch([pa.array(np.arange(number * ROWS, (number + 1) * ROWS))], schema=SCHEMA)


@pytest.fixture(params=["in process", "over gRPC"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    with closing(open_service(roots=[], spill_directory=tmp_path)) as service, ExitStack() as stack:
        if request.param == "in process":
            yield Client(service)
        else:
            yield stack.enter_context(tidegate.connect(stack.enter_context(served(service))))


def total(task: tidegate.Task) -> tuple[int, int]:
    """The rows of the next epoch, and their sum."""
    rows = sums = 0
    for batch in task.batches():
        rows += batch.num_rows
        sums += pc.sum(batch["x"]).as_py()
    return rows, sums


def expected(batches: int = BATCHES) -> tuple[int, int]:
    rows = batches * ROWS
    return rows, rows * (rows - 1) // 2


def test_a_long_stream_is_a_split_without_being_in_memory(real: Client) -> None:
    with real.create_task(passed_through("a").json, output_bytes=4 * MIB, queue_bytes=4 * MIB) as task:
        stream = Watched()
        task.add_split("a", stream)
        assert stream.most <= INLINE_BYTES + 4 * MIB
        task.request_barrier()
        task.no_more_splits()
        assert total(task) == expected()


def test_a_long_stream_is_a_table_without_being_in_memory(real: Client) -> None:
    stream = Watched()
    with real.create_task(passed_through("a", "b").json, tables={"b": stream}, output_bytes=4 * MIB) as task:
        assert stream.most <= INLINE_BYTES + 4 * MIB
        task.add_split("a", Watched(1))
        task.request_barrier()
        task.no_more_splits()
        rows, _ = total(task)
        assert rows == (BATCHES + 1) * ROWS


def test_a_long_stream_goes_into_memory_where_there_is_no_room_on_disk() -> None:
    with (
        tidegate.local() as client,
        client.create_task(passed_through("a").json, spill_quota=0, queue_bytes=64 * MIB) as task,
    ):
        task.add_split("a", Watched())
        task.request_barrier()
        task.no_more_splits()
        assert total(task) == expected()

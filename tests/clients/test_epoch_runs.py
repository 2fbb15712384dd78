"""Two programs that read one relaxed task over a restart of its service: neither gets rows of two runs of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.proto.values import Cursor, Determinism
from tidegate.transport.access import Access
from tidegate.transport.remote import RemoteService

from ..executor.fakes import SCHEMA
from ..executor.journal.restarts import Restarts
from ..server.running import served

ROWS = 600_000
LARGE = pa.table({"x": range(ROWS)})
"""Several answers."""

Connect = Callable[[Restarts], AbstractContextManager[Client]]


@contextmanager
def embedded(service: Restarts) -> Iterator[Client]:
    yield Client(service.manager)


def remote(flight: bool) -> Connect:
    @contextmanager
    def connected(service: Restarts) -> Iterator[Client]:
        with (
            served(service.manager) as address,
            Client(RemoteService(Access(address=address, flight=flight))) as client,
        ):
            yield client

    return connected


each_transport = pytest.mark.parametrize(
    "connect", [embedded, remote(flight=False), remote(flight=True)], ids=["in this process", "gRPC", "Flight"]
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        yield restarts


def restarted_with_other_rows(service: Restarts) -> None:
    service.kill()
    service.engine.function = negative
    service.start()


def negative(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pa.array([-value for value in batch.column(0).to_pylist()], pa.int64())], schema=SCHEMA)


def read_two_batches(task: tidegate.Task) -> Cursor:
    """Read a part of the epoch as a program that keeps its cursor."""
    (epoch,) = [next(task.epochs())]
    for _ in range(2):
        next(epoch)
    return epoch.cursor


@each_transport
def test_a_cursor_of_before_a_restart_is_refused_when_another_program_has_read_the_epoch_since(
    service: Restarts, connect: Connect
) -> None:
    with connect(service) as client:
        task = client.create_task(b"plan", determinism=Determinism.RELAXED)
        for part in (LARGE.slice(0, ROWS // 2), LARGE.slice(ROWS // 2)):
            task.add_split("a", part)
        task.request_barrier()
        old = read_two_batches(client.task(task.id))
        task.acknowledge(old)
        service.durable.flush()
    restarted_with_other_rows(service)
    with connect(service) as client:
        assert client.task(task.id, cursor=Cursor(1)).read_epoch()["x"][-1].as_py() == 1 - ROWS
        for attached in (client.task(task.id, cursor=old), client.task(task.id)):
            with pytest.raises(tidegate.OutOfRange) as raised:
                attached.read_epoch()
            assert raised.value.reason == "EPOCH_RESTARTED"


@each_transport
def test_a_program_goes_on_at_its_cursor_in_the_run_that_it_has_read(service: Restarts, connect: Connect) -> None:
    with connect(service) as client:
        task = client.create_task(b"plan", determinism=Determinism.RELAXED)
        for start in range(0, ROWS, ROWS // 4):
            task.add_split("a", LARGE.slice(start, ROWS // 4))
        task.request_barrier()
    restarted_with_other_rows(service)
    with connect(service) as client:
        reader = client.task(task.id)
        with reader.batches(ROWS // 10) as batches:
            read = [next(batches) for _ in range(3)]
        saved = reader.cursor
        assert (saved.row, saved) == (3 * ROWS // 10, batches.cursor)
        rest = client.task(task.id, cursor=saved).read_epoch()
        assert pa.concat_tables([pa.Table.from_batches(read), rest])["x"].to_pylist() == [-row for row in range(ROWS)]


def test_a_program_that_keeps_a_cursor_without_its_run_is_told_so(service: Restarts) -> None:
    with remote(flight=False)(service) as client:
        task = client.create_task(b"plan", determinism=Determinism.RELAXED)
        task.add_split("a", pa.table({"x": [1, 2, 3]}))
        task.request_barrier()
    restarted_with_other_rows(service)
    with remote(flight=False)(service) as client:
        assert client.task(task.id).read_epoch()["x"].to_pylist() == [-1, -2, -3]
        with pytest.raises(tidegate.OutOfRange) as raised:
            client.task(task.id, cursor=Cursor(1, 2)).read_epoch()
        assert raised.value.reason == "CURSOR_WITHOUT_RUN"


def test_an_older_client_which_does_not_send_runs_reads_an_epoch_of_a_restarted_service(service: Restarts) -> None:
    with remote(flight=False)(service) as client:
        task = client.create_task(b"plan", determinism=Determinism.RELAXED)
        for value in (1, 2):
            task.add_split("a", pa.table({"x": [value]}))
        task.request_barrier()
    restarted_with_other_rows(service)
    with remote(flight=False)(service) as client:
        for row in (0, 1):
            data = client.service.next(task.id, Cursor(1, row, run=None), max_bytes=1, wait=20.0)[0]
            assert data.batches[0].column(0).to_pylist() == [-1 - row]

"""Results for any Arrow Flight client: pyarrow's, which knows nothing of Tidegate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pyarrow import flight

import tidegate
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.encoding.flight_messages import SERVICE
from tidegate.server.serving import Server
from tidegate.server.setup.settings import Settings

from ..executor.fakes import POISON, FakeEngine
from .running import fake_server, flight_address, manager, served

COLUMN = pa.schema([("x", pa.int64())])


@pytest.fixture
def address() -> Iterator[str]:
    with fake_server() as listening:
        yield listening


@pytest.fixture
def client(address: str) -> Iterator[tidegate.Client]:
    with tidegate.connect(address) as connected:
        yield connected


@pytest.fixture
def foreign(client: tidegate.Client) -> Iterator[flight.FlightClient]:
    with flight.connect(f"grpc://{flight_address(client)}") as connected:
        yield connected


def ticket(task: tidegate.Task, epoch: int) -> flight.Ticket:
    return flight.Ticket(json.dumps({"task": task.id, "epoch": epoch}))


def feed(task: tidegate.Task, *numbers: int) -> int:
    task.add_split("a", pa.table({"x": pa.array(numbers, pa.int64())}))
    return task.request_barrier()


def test_an_epoch_is_read_whole_and_alone_as_often_as_one_likes(
    client: tidegate.Client, foreign: flight.FlightClient
) -> None:
    task = client.create_task(b"plan")
    for first in (0, 1_000_000):
        feed(task, *range(first, first + 500_000))
    for epoch, first in ((2, 1_000_000), (1, 0), (1, 0)):
        table = foreign.do_get(ticket(task, epoch)).read_all()
        assert table == pa.table({"x": range(first, first + 500_000)}, schema=COLUMN)


def test_reading_an_epoch_waits_for_its_barrier(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    reader = foreign.do_get(ticket(task, 1))
    assert reader.schema == COLUMN
    feed(task, 1, 2)
    assert reader.read_all()["x"].to_pylist() == [1, 2]


def test_a_deadline_ends_the_wait(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    with pytest.raises(flight.FlightTimedOutError):
        foreign.do_get(ticket(task, 1), flight.FlightCallOptions(timeout=0.1)).read_all()
    assert task.run_epoch({"a": pa.table({"x": [1]})}).rows == 1


def test_cancelling_the_task_ends_the_wait(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    reader = foreign.do_get(ticket(task, 1))
    task.cancel()
    with pytest.raises(flight.FlightServerError, match="cancelled") as cancelled:
        reader.read_all()
    assert cancelled.value.extra_info == b"TASK_CANCELLED"


def test_an_empty_epoch_is_an_empty_table(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    task.request_barrier()
    assert foreign.do_get(ticket(task, 1)).read_all() == COLUMN.empty_table()


def test_a_skipped_epoch_is_an_error_and_the_next_one_is_not(
    client: tidegate.Client, foreign: flight.FlightClient
) -> None:
    task = client.create_task(b"plan", on_error="skip_epoch")
    feed(task, POISON)
    feed(task, 2)
    with pytest.raises(pa.ArrowException, match="poison"):
        foreign.do_get(ticket(task, 1)).read_all()
    assert foreign.do_get(ticket(task, 2)).read_all()["x"].to_pylist() == [2]


def test_a_task_that_failed_says_so_after_its_last_good_epoch(
    client: tidegate.Client, foreign: flight.FlightClient
) -> None:
    task = client.create_task(b"plan")
    feed(task, 1)
    feed(task, POISON)
    assert foreign.do_get(ticket(task, 1)).read_all()["x"].to_pylist() == [1]
    with pytest.raises(pa.ArrowException, match="poison"):
        foreign.do_get(ticket(task, 2)).read_all()


def test_there_is_no_epoch_behind_the_end(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    feed(task, 1)
    task.no_more_splits()
    with pytest.raises(flight.FlightServerError, match="there is no epoch 2") as refused:
        foreign.do_get(ticket(task, 2)).read_all()
    assert refused.value.extra_info == b"TASK_FINISHED"


def test_an_epochs_flight_has_its_schema_and_ticket(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    feed(task, 7)
    path = flight.FlightDescriptor.for_path(task.id, "1")
    info = foreign.get_flight_info(path)
    assert (info.schema, info.descriptor, info.total_records, info.total_bytes) == (COLUMN, path, -1, -1)
    (endpoint,) = info.endpoints
    assert not endpoint.locations
    assert foreign.do_get(endpoint.ticket).read_all()["x"].to_pylist() == [7]
    assert foreign.get_schema(path).schema == COLUMN


@pytest.mark.parametrize(
    "ticket",
    [
        b"",
        b"wide",
        b"{",
        b"{" * 5000,
        b'{"task": "t"}',
        b'{"epoch": 1}',
        b'{"task": "t", "epoch": 0}',
        b'{"task": "t", "epoch": -1}',
        b'{"task": "t", "epoch": 1, "results": {"task": "t"}}',
        b'{"task": "t", "epoch": 1, "rows": 2}',
        b"{\xff}",
        b"\x12" * 100_000,
    ],
    ids=lambda ticket: ticket[:40],
)
def test_a_ticket_that_is_none_is_refused_with_what_would_be_one(foreign: flight.FlightClient, ticket: bytes) -> None:
    with pytest.raises(flight.FlightServerError, match=r"\{\"task\": \"...\", \"epoch\": 1\}") as refused:
        foreign.do_get(flight.Ticket(ticket))
    assert refused.value.extra_info == b"BAD_TICKET"


@pytest.mark.parametrize(
    "descriptor",
    [
        flight.FlightDescriptor.for_path("t"),
        flight.FlightDescriptor.for_path("t", "one"),
        flight.FlightDescriptor.for_path("t", "1", "2"),
        flight.FlightDescriptor.for_command("t"),
    ],
    ids=repr,
)
def test_a_descriptor_of_something_else_is_refused(
    foreign: flight.FlightClient, descriptor: flight.FlightDescriptor
) -> None:
    for ask in (foreign.get_flight_info, foreign.get_schema):
        with pytest.raises(pa.ArrowException, match="a task's id, and an epoch's number"):
            ask(descriptor)


def test_a_task_that_is_not_there_is_said_to_be_so(foreign: flight.FlightClient) -> None:
    for ask in (
        lambda: foreign.do_get(flight.Ticket(b'{"task": "none", "epoch": 1}')),
        lambda: foreign.get_flight_info(flight.FlightDescriptor.for_path("none", "1")),
    ):
        with pytest.raises(flight.FlightServerError, match="no task 'none'") as refused:
            ask()
        assert refused.value.extra_info == b"UNKNOWN_TASK"


def test_get_schema_refuses_with_the_sentence_as_an_arrow_exception(foreign: flight.FlightClient) -> None:
    with pytest.raises(pa.ArrowException, match="no task 'none'"):
        foreign.get_schema(flight.FlightDescriptor.for_path("none", "1"))


OTHERS: dict[str, Callable[[flight.FlightClient], object]] = {
    "ListFlights": lambda foreign: list(foreign.list_flights()),
    "ListActions": lambda foreign: list(foreign.list_actions()),
    "DoAction": lambda foreign: list(foreign.do_action("drop")),
    "DoPut": lambda foreign: foreign.do_put(flight.FlightDescriptor.for_path("t", "1"), COLUMN)[0].close(),
    "DoExchange": lambda foreign: foreign.do_exchange(flight.FlightDescriptor.for_path("t", "1"))[1].read_chunk(),
}


@pytest.mark.parametrize("ask", OTHERS.values(), ids=OTHERS)
def test_what_else_flight_has_is_refused_with_a_sentence(
    foreign: flight.FlightClient, ask: Callable[[flight.FlightClient], object]
) -> None:
    with pytest.raises(flight.FlightServerError, match="Tidegate serves results over Arrow Flight, with DoGet"):
        ask(foreign)


def test_no_refusal_shows_where_the_server_has_its_code(foreign: flight.FlightClient) -> None:
    wrong = flight.FlightDescriptor.for_path("none", "1")
    for ask in (
        *OTHERS.values(),
        lambda foreign: foreign.do_get(flight.Ticket(b"wide")),
        lambda foreign: foreign.get_flight_info(wrong),
        lambda foreign: foreign.get_schema(wrong),
    ):
        with pytest.raises(pa.ArrowException) as refused:
            ask(foreign)
        assert '.py"' not in str(refused.value)


def test_a_bug_is_logged_with_its_traceback_and_internal_to_the_client(
    client: tidegate.Client,
    foreign: flight.FlightClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = client.create_task(b"plan")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(TaskManager, "poll", broken)
    with caplog.at_level(logging.ERROR), pytest.raises(flight.FlightInternalError, match="server's log") as bug:
        foreign.do_get(ticket(task, 1)).read_all()
    assert "secret" not in str(bug.value)
    assert "ZeroDivisionError: secret detail" in caplog.text


# ------------------------------------------------------------------------------------------------------ its threads


def test_a_stream_beyond_those_that_may_be_open_is_refused_and_one_after_them_is_not() -> None:
    with (
        fake_server(flight_streams=2) as address,
        tidegate.connect(address) as client,
        flight.connect(f"grpc://{flight_address(client)}") as foreign,
    ):
        task = client.create_task(b"plan")
        waiting = [foreign.do_get(ticket(task, 1)) for _ in range(2)]
        with pytest.raises(flight.FlightUnavailableError, match="has 2 streams of Arrow Flight open") as refused:
            foreign.do_get(ticket(task, 1))
        assert refused.value.extra_info == b"FLIGHT_BUSY"
        feed(task, 1)
        assert [reader.read_all()["x"].to_pylist() for reader in waiting] == [[1], [1]]
        _until(lambda: foreign.do_get(ticket(task, 1)).read_all()["x"].to_pylist() == [1])


def test_a_client_that_leaves_while_it_waits_leaves_its_place_and_nothing_behind() -> None:
    with (
        fake_server(flight_streams=1) as address,
        tidegate.connect(address) as client,
        flight.connect(f"grpc://{flight_address(client)}") as foreign,
    ):
        task = client.create_task(b"plan")
        left = foreign.do_get(ticket(task, 1))
        left.cancel()
        other = client.create_task(b"plan")
        feed(other, 1)
        _until(lambda: foreign.do_get(ticket(other, 1)).read_all()["x"].to_pylist() == [1])


def test_a_stalled_reader_stops_nobody_else(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    for _ in range(4):
        task.add_split("a", pa.table({"x": range(1_000_000)}))
    task.request_barrier()
    stalled = foreign.do_get(ticket(task, 1))
    assert stalled.read_chunk().data.num_rows < 4_000_000
    assert foreign.do_get(ticket(task, 1)).read_all().num_rows == 4_000_000
    assert sum(chunk.data.num_rows for chunk in stalled) > 0


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix:{}/socket"])
def test_the_servers_end_is_not_held_up_by_streams(listen: str, tmp_path: Path) -> None:
    large = FakeEngine(repeat=32)  # 256 MB, more than lies in the buffers between a server and its client
    with manager(large) as backend, contextlib.ExitStack() as clients:
        with served(backend, listen=listen.format(tmp_path), grace_seconds=0.2) as address:
            client = clients.enter_context(tidegate.connect(address))
            scheme = "grpc+unix" if address.startswith("unix:") else "grpc"
            location = f"{scheme}://{flight_address(client).removeprefix('unix:')}"
            foreign = clients.enter_context(flight.connect(location))
            task = client.create_task(b"plan", output_bytes=1 << 30)
            waiting = foreign.do_get(ticket(task, 2))
            task.add_split("a", pa.table({"x": range(1_000_000)}))
            task.request_barrier()
            stalled = foreign.do_get(ticket(task, 1))
            stalled.read_chunk()
        for reader in (waiting, stalled):
            with pytest.raises(flight.FlightUnavailableError):
                reader.read_all()


def test_the_servers_end_tells_those_who_wait(client: tidegate.Client) -> None:
    with manager() as backend, contextlib.ExitStack() as clients:
        with served(backend) as address:
            client = clients.enter_context(tidegate.connect(address))
            foreign = clients.enter_context(flight.connect(f"grpc://{flight_address(client)}"))
            waiting = foreign.do_get(ticket(client.create_task(b"plan"), 1))
        with pytest.raises(flight.FlightUnavailableError, match="the server is shutting down"):
            waiting.read_all()


# ------------------------------------------------------------------------------------------------------- its place


def test_a_port_of_its_own_is_announced_without_the_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with fake_server(flight_listen=f"127.0.0.1:{port}") as address, tidegate.connect(address) as client:
        assert client.capabilities().flight == f":{port}"


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with manager() as backend, pytest.raises(tidegate.Unavailable, match=f"{listen} for Arrow Flight"):
            asyncio.run(_started(Settings(listen="127.0.0.1:0", flight_listen=listen), backend))


async def _started(settings: Settings, backend: TaskManager) -> None:
    async with Server(backend, settings):
        pass


def test_health_has_flight_where_it_is_served(client: tidegate.Client, address: str) -> None:
    with fake_server(flight=False) as without:
        for where, expected in ((address, "SERVING"), (without, "NOT_FOUND")):
            with grpc.insecure_channel(where) as channel:
                check = health_pb2_grpc.HealthStub(channel).Check
                try:
                    answer = check(health_pb2.HealthCheckRequest(service=SERVICE))
                    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
                except grpc.RpcError as refused:
                    status = refused.code().name
            assert status == expected


def test_a_server_whose_pyarrow_has_no_flight_runs_without_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.flight", None)
    monkeypatch.delattr(pa, "flight", raising=False)
    with fake_server() as address, tidegate.connect(address) as client:
        assert client.capabilities().flight == ""
    assert "there is no Arrow Flight" in caplog.text
    assert "this build of pyarrow has no pyarrow.flight" in caplog.text


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_a_server_that_other_machines_reach_has_no_flight_unless_it_is_asked_for(
    listen: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with manager(FakeEngine()) as backend:
        with served(backend, listen=listen) as address, tidegate.connect(_here(address)) as client:
            assert client.capabilities().flight == ""
        assert "unless --flight-listen asks for it" in caplog.text
        asked = served(backend, listen=listen, flight_listen="127.0.0.1:0")
        with asked as address, tidegate.connect(_here(address)) as client:
            assert client.capabilities().flight != ""


def _here(address: str) -> str:
    """The address of this machine at the same port."""
    return f"127.0.0.1:{address.rpartition(':')[2]}"


def _until(done: Callable[[], bool]) -> None:
    """Try again while the server still has a stream that has just ended."""
    deadline = time.monotonic() + 20
    while True:
        try:
            assert done()
        except flight.FlightUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        else:
            return

"""Large results come over Arrow Flight; where that cannot be had they come all the same, and the client says so."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import tidegate
from tidegate.proto.address import placeless
from tidegate.proto.errors import Unavailable
from tidegate.server.endpoints.flight_port import FlightPort
from tidegate.server.endpoints.flight_service import FlightServer
from tidegate.transport.result_streams import ATTEMPTS

from ..executor.fakes import FakeEngine
from ..server.running import fake_server, flight_address

LARGE = pa.table({"x": range(1_000_000)})
SAID = "large results are read over gRPC, which is slower"


def read_epochs(address: str, count: int = 2, **how: object) -> str:
    """Read large epochs; how they come."""
    with tidegate.connect(address, **how) as client, client.create_task(b"plan") as task:
        for _ in range(count):
            assert task.run_epoch({"a": LARGE}).table() == LARGE
        return task.service.large_results


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have servers say that their Flight is elsewhere."""
    return lambda address: monkeypatch.setattr(FlightPort, "announced", placeless(address))


@contextlib.contextmanager
def silent(backlog: int) -> Iterator[str]:
    """An address that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_large_results_come_over_flight(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server() as address:
        assert read_epochs(address) == "Flight"
    assert SAID not in caplog.text


def test_without_flight_where_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server() as address:
        assert read_epochs(address, flight=False) == "gRPC: the client asked for gRPC"
    assert SAID not in caplog.text


def test_a_build_of_pyarrow_without_flight_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_server() as address, caplog.at_level(logging.WARNING):
        monkeypatch.setitem(sys.modules, "pyarrow.flight", None)
        monkeypatch.delattr(pa, "flight", raising=False)
        assert read_epochs(address) == "gRPC: this build of pyarrow has no pyarrow.flight"
    assert caplog.text.count(SAID) == 1


def test_a_server_without_flight_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server(flight=False) as address, caplog.at_level(logging.WARNING):
        assert read_epochs(address) == "gRPC: the server has no Arrow Flight"
    assert caplog.text.count(SAID) == 1


@pytest.mark.parametrize("backlog", [0, 8])
def test_flight_that_cannot_be_reached_costs_a_few_seconds_once(
    backlog: int, announced: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidegate.transport.result_streams.CONNECT_SECONDS", 0.5)
    with silent(backlog) as elsewhere, fake_server() as address, caplog.at_level(logging.WARNING):
        announced(elsewhere)
        assert read_epochs(address).startswith(f"gRPC: the server's Arrow Flight cannot be reached at {elsewhere} (")
    assert caplog.text.count(SAID) == 1


def test_flight_where_nobody_listens_is_said_once(
    announced: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as deaf, fake_server() as address, caplog.at_level(logging.WARNING):
        deaf.bind(("127.0.0.1", 0))
        elsewhere = f"127.0.0.1:{deaf.getsockname()[1]}"
        announced(elsewhere)
        assert read_epochs(address).startswith(f"gRPC: the server's Arrow Flight cannot be reached at {elsewhere} (")
    assert caplog.text.count(SAID) == 1


def test_flight_of_another_server_is_given_up_and_said_once(
    announced: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    with fake_server() as address, fake_server() as other, caplog.at_level(logging.WARNING):
        with tidegate.connect(other) as client:
            announced(flight_address(client))
        assert read_epochs(address, ATTEMPTS - 1) == "Flight"
        assert caplog.text.count(SAID) == 0
        way = read_epochs(address, ATTEMPTS + 1)
        assert way.startswith("gRPC: Arrow Flight does not work on the way to the server (there is no task ")
    assert caplog.text.count(SAID) == 1


def test_a_place_that_cannot_be_told_from_the_servers_is_not_looked_for(
    announced: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    with fake_server() as address, caplog.at_level(logging.WARNING):
        announced("unix:/somewhere/socket")
        way = read_epochs(address)
    assert way == (
        "gRPC: the server's Arrow Flight is at unix:socket, and the client cannot find its host: "
        f"it reached the server at {address}"
    )
    assert caplog.text.count(SAID) == 1


def test_flight_that_breaks_is_found_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    do_get = FlightServer.do_get
    calls = []

    def broken_at_first(self: FlightServer, *call: object) -> object:
        calls.append(call)
        if len(calls) == 1:
            raise flight.FlightUnavailableError("a proxy in between")
        return do_get(self, *call)

    monkeypatch.setattr(FlightServer, "do_get", broken_at_first)
    with fake_server() as address:
        assert read_epochs(address) == "Flight"
    assert len(calls) >= 2
    assert SAID not in caplog.text


def test_a_server_with_no_place_for_a_stream_is_read_from_all_the_same_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        fake_server(flight_streams=1) as address,
        tidegate.connect(address) as client,
        flight.connect(f"grpc://{flight_address(client)}") as foreign,
        caplog.at_level(logging.WARNING),
        client.create_task(b"plan") as waited,
    ):
        reader = foreign.do_get(flight.Ticket(f'{{"task": "{waited.id}", "epoch": 1}}'))
        assert read_epochs(address) == "Flight"
        reader.cancel()
    assert caplog.text.count(SAID) == 1


def test_a_stream_ends_where_it_would_have_to_wait() -> None:
    with (
        fake_server(FakeEngine(early=True), flight_streams=1) as address,
        tidegate.connect(address) as client,
        client.create_task(b"plan") as task,
    ):
        task.add_split("a", LARGE)  # and no barrier
        read = 0
        while read < len(LARGE):
            read += sum(frame.rows for frame in task.next(wait=10) if isinstance(frame, tidegate.Data))
        assert isinstance(task.next()[0], tidegate.Blocked)
        with flight.connect(f"grpc://{flight_address(client)}") as foreign:
            _begun(foreign, flight.Ticket(f'{{"task": "{task.id}", "epoch": 2}}')).cancel()


def _begun(foreign: flight.FlightClient, ticket: flight.Ticket) -> flight.FlightStreamReader:
    """A stream, once the end of another has reached the server."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return foreign.do_get(ticket)
        except flight.FlightUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_unix_sockets_server_too(tmp_path: Path) -> None:
    with fake_server(listen=f"unix:{tmp_path}/socket") as address:
        assert read_epochs(address) == "Flight"
        assert (tmp_path / "socket.flight").is_socket()
    assert not (tmp_path / "socket.flight").exists()


def test_a_unix_socket_that_goes_by_another_name_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    monkeypatch.chdir(tmp_path)
    with fake_server(listen=f"unix:{tmp_path}/theirs/socket"):
        assert read_epochs("unix:ours/socket") == "Flight"


def test_rows_come_although_the_server_did_not_say_where_its_flight_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise Unavailable("away")

    with fake_server() as address:
        monkeypatch.setattr("tidegate.transport.result_streams.FlightConnection._address", away)
        assert read_epochs(address, 1) == "Flight"


def test_both_ways_give_the_same_frames() -> None:
    with fake_server() as address, tidegate.connect(address) as client, client.create_task(b"plan") as task:
        task.add_split("a", LARGE)
        task.request_barrier()
        tables = []
        for flight in (True, False):
            with tidegate.connect(address, flight=flight) as other:
                reader = other.task(task.id, cursor=tidegate.Cursor(1, 17))
                frames = []
                while not frames or not isinstance(frames[-1], tidegate.Barrier):
                    frames += [frame for frame in reader.next(wait=10) if not isinstance(frame, tidegate.Blocked)]
                batches = [batch for frame in frames[:-1] for batch in frame.batches]
                tables.append((pa.Table.from_batches(batches), frames[-1]))
        assert tables[0] == tables[1]
        assert tables[0][0] == LARGE.slice(17)


def test_a_large_result_that_is_left_in_its_middle_can_be_read_again() -> None:
    with fake_server() as address, tidegate.connect(address) as client, client.create_task(b"plan") as task:
        task.add_split("a", LARGE)
        task.request_barrier()
        for _ in range(3):
            frames = task.next(tidegate.Cursor(1, 0), wait=10)
            frames = [*frames, *task.next()]
            assert sum(frame.rows for frame in frames) <= len(LARGE)
        assert task.next(tidegate.Cursor(1, 0))[0].cursor == tidegate.Cursor(1, 0)

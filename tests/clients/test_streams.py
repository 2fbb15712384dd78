"""Large results come over Arrow Flight; where that cannot be had they come all the same, and the client says so."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

import tidegate
from tidegate.server.flight import Flight
from tidegate.streams import ATTEMPTS

from ..server.running import fake_server

LARGE = pa.table({"x": range(1_000_000)})
SAID = "large results are read over gRPC, which is slower"


def read_epochs(address: str, count: int = 2, **how: object) -> str:
    """Read large epochs; how they come."""
    with tidegate.connect(address, **how) as client, client.create_task(b"plan") as task:
        for _ in range(count):
            assert task.run_epoch({"a": LARGE}).table() == LARGE
        return task.service.large_results


def test_large_results_come_over_flight(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server() as address:
        assert read_epochs(address) == "Flight"
    assert SAID not in caplog.text


def test_without_flight_where_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server() as address:
        assert read_epochs(address, flight=False) == "gRPC: as was asked for"
    assert SAID not in caplog.text


def test_a_build_of_pyarrow_without_flight_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.flight", None)
    monkeypatch.delattr(pa, "flight", raising=False)
    with fake_server() as address, caplog.at_level(logging.WARNING):
        assert read_epochs(address) == "gRPC: this build of pyarrow has no pyarrow.flight"
    assert caplog.text.count(SAID) == 1


def test_a_server_without_flight_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flight, "handler", lambda _: grpc.method_handlers_generic_handler("none", {}))
    with fake_server() as address, caplog.at_level(logging.WARNING):
        assert read_epochs(address) == "gRPC: the server is of a version without Arrow Flight"
    assert caplog.text.count(SAID) == 1


def test_flight_that_does_not_get_through_is_given_up_and_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_self: Flight, _request: bytes, context: grpc.aio.ServicerContext) -> AsyncGenerator[bytes]:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "a proxy in between")
        yield b""

    monkeypatch.setattr(Flight, "do_get", broken)
    with fake_server() as address, caplog.at_level(logging.WARNING):
        assert read_epochs(address, ATTEMPTS - 1) == "Flight"
        assert caplog.text.count(SAID) == 0
        assert read_epochs(address, ATTEMPTS + 1).startswith("gRPC: Arrow Flight does not get through (")
    assert caplog.text.count(SAID) == 1


def test_a_unix_sockets_server_too(tmp_path: Path) -> None:
    with fake_server(listen=f"unix:{tmp_path}/socket") as address:
        assert read_epochs(address) == "Flight"


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
                    frames += [each for each in reader.next(wait=10) if not isinstance(each, tidegate.Blocked)]
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
            assert sum(frame.rows for frame in frames) < len(LARGE)
        assert task.next(tidegate.Cursor(1, 0))[0].cursor == tidegate.Cursor(1, 0)

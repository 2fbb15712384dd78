"""Connections that nobody is behind any more, or that nobody uses, are ended; those in use stay."""

from __future__ import annotations

import grpc
import pytest

from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.tidegate.v1 import tasks_pb2_grpc
from tidegate.server import serving

from .raw_http2 import RawConnection
from .running import fake_server

WAIT = 30.0
"""Seconds until the test says that a connection stays."""
_PING, _GOAWAY = 6, 7
_ACKNOWLEDGED = 1


@pytest.fixture(params=[None, "/tidegate.v1.TaskService/GetTask"], ids=["without calls", "with a half call"])
def half_call(request: pytest.FixtureRequest) -> str | None:
    """A method whose request does not come whole."""
    method: str | None = request.param
    return method


def test_a_connection_that_answers_no_ping_is_ended(monkeypatch: pytest.MonkeyPatch, half_call: str | None) -> None:
    monkeypatch.setattr(serving, "_PING_SECONDS", 0.2)
    monkeypatch.setattr(serving, "_PONG_SECONDS", 0.2)
    with fake_server() as address, RawConnection(address) as connection:
        if half_call:
            connection.begin(half_call, 100, b"x")
        kinds = [kind for kind, _, _ in connection.frames(WAIT)]
        assert _PING in kinds


def test_a_connection_that_answers_pings_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_PING_SECONDS", 0.2)
    monkeypatch.setattr(serving, "_PONG_SECONDS", 5.0)
    with fake_server() as address, RawConnection(address) as connection:
        pings = 0
        for kind, flags, payload in connection.frames(WAIT):
            assert kind != _GOAWAY
            if kind == _PING and not flags & _ACKNOWLEDGED:
                connection.send(_PING, _ACKNOWLEDGED, payload)
                pings += 1
            if pings == 3:
                break
        assert pings == 3


def test_a_connection_without_calls_is_ended_and_one_with_a_call_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_IDLE_SECONDS", 0.5)
    with fake_server() as address, grpc.insecure_channel(address) as channel, RawConnection(address) as idle:
        tasks = tasks_pb2_grpc.TaskServiceStub(channel)
        task = tasks.CreateTask(pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan"))).task.id
        waits = tasks.Next.future(pb.NextRequest(task=task, wait_ms=600_000, **{"from": pb.Cursor(epoch=1)}))
        (left,) = [payload for kind, _, payload in idle.frames(WAIT) if kind == _GOAWAY]
        assert left.endswith(b"connection idle")
        assert not waits.done()
        tasks.CancelTask(pb.CancelTaskRequest(task=task))
        assert waits.exception(timeout=WAIT).code() is not grpc.StatusCode.UNAVAILABLE

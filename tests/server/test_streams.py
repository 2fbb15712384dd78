"""A principal may have so many calls open that wait for results, give them or feed, and no more; others have theirs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from pyarrow import flight

from tidegate.proto.address import beside
from tidegate.proto.tidegate.v1 import plans_pb2, plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.access.tokens import Tokens

from .running import manager, served

MOST = 3
TOKENS = {"alice": "a" * 32, "bob": "b" * 32}
DEADLINE = 30.0
Open = Callable[[str, str], object]


class Callers:
    """Calls of principals by their names."""

    def __init__(self, channel: grpc.Channel, address: str) -> None:
        self.tasks = tasks_pb2_grpc.TaskServiceStub(channel)
        capabilities = plans_pb2_grpc.PlanServiceStub(channel).Capabilities(
            plans_pb2.CapabilitiesRequest(), metadata=of("alice")
        )
        self.foreign = flight.connect(f"grpc://{beside(address, capabilities.flight)}")

    def create(self, who: str) -> str:
        request = pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan"))
        return self.tasks.CreateTask(request, metadata=of(who), timeout=DEADLINE).task.id

    def next(self, who: str, task: str) -> object:
        request = pb.NextRequest(task=task, wait_ms=60_000, **{"from": pb.Cursor(epoch=1)})
        return self.tasks.Next.future(request, metadata=of(who))

    def results(self, who: str, task: str) -> object:
        request = pb.ResultsRequest(task=task, **{"from": pb.Cursor(epoch=1)})
        answers = self.tasks.Results(request, metadata=of(who))
        next(answers)
        return answers

    def watch(self, who: str, task: str) -> object:
        answers = self.tasks.WatchTask(pb.WatchTaskRequest(task=task), metadata=of(who))
        next(answers)
        return answers

    def feed(self, who: str, task: str) -> object:
        return self.tasks.Feed(_requests(task), metadata=of(who))

    def get(self, who: str, task: str) -> object:
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKENS[who]}".encode())])
        return self.foreign.do_get(flight.Ticket(json.dumps({"task": task, "epoch": 1})), options)


def of(who: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKENS[who]}"),)


def _requests(task: str) -> Iterator[pb.AddSplitsRequest]:
    yield pb.AddSplitsRequest(task=task)
    time.sleep(60.0)


@pytest.fixture
def callers(tmp_path: Path) -> Iterator[Callers]:
    path = tmp_path / "tokens"
    path.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
    path.chmod(0o600)
    with (
        manager(principals=True) as backend,
        served(backend, tokens=Tokens(path), streams_per_principal=MOST) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield Callers(channel, address)


def refusal(call: Callable[[], object]) -> str:
    """The reason why a call has no place."""
    try:
        answer = call()
        if isinstance(answer, grpc.Future):
            answer.result(timeout=DEADLINE)
        else:
            next(iter(answer))
    except grpc.RpcError as error:
        return str(dict(error.trailing_metadata())["tidegate-reason"])
    except flight.FlightError as error:
        return str(error.extra_info.decode())
    raise AssertionError("it was answered")


KINDS = ("next", "results", "watch", "feed", "get")


@pytest.mark.parametrize("kind", KINDS)
def test_calls_beyond_those_that_a_principal_may_have_open_are_refused(callers: Callers, kind: str) -> None:
    task, other = callers.create("alice"), callers.create("bob")
    opened = [callers.results("alice", task) for _ in range(MOST)]
    assert refusal(lambda: getattr(callers, kind)("alice", task)) == "TOO_MANY_STREAMS"
    assert callers.results("bob", other) is not None
    assert callers.tasks.GetTask(pb.GetTaskRequest(task=task), metadata=of("alice"), timeout=DEADLINE).id == task
    for call in opened:
        call.cancel()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_counts_and_counts_no_more_once_it_has_ended(callers: Callers, kind: str) -> None:
    task = callers.create("alice")
    opened = [getattr(callers, kind)("alice", task) for _ in range(MOST)]
    _until(lambda: refused(callers, task))
    callers.tasks.CancelTask(pb.CancelTaskRequest(task=task), metadata=of("alice"), timeout=DEADLINE)
    for call in opened:
        call.cancel()
    other = callers.create("alice")
    _until(lambda: not refused(callers, other))


def refused(callers: Callers, task: str) -> bool:
    """Whether the principal has as many calls as it may."""
    try:
        callers.results("alice", task).cancel()
    except grpc.RpcError as error:
        return str(dict(error.trailing_metadata()).get("tidegate-reason")) == "TOO_MANY_STREAMS"
    return False


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to be so")

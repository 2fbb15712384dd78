"""The server itself: health, reflection, bugs, limits, waiting without threads, its end."""

from __future__ import annotations

import json
import logging
import socket
import threading
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import tidegate
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.errors import PlanError, Problem, Unavailable
from tidegate.proto.tidegate.v1 import plans_pb2, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from ..executor.fakes import FakeEngine
from ..planner.decode.plans import I64, field, plan, project, table
from .conftest import Stubs, inline, rows
from .running import IDLE, await_waiter, fake_server, manager, served


@pytest.mark.parametrize("service", ["", "tidegate.v1.TaskService", "tidegate.v1.PlanService"])
def test_the_standard_health_service_says_serving(stubs: Stubs, service: str) -> None:
    answer = health_pb2_grpc.HealthStub(stubs.channel).Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_thousands_of_calls_at_the_same_time_are_all_answered(stubs: Stubs) -> None:
    calls = [stubs.tasks.ListTasks.future(pb.ListTasksRequest(), timeout=120) for _ in range(3_000)]
    assert {call.exception() for call in calls} == {None}


def test_reflection_lists_the_services(stubs: Stubs) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(stubs.channel)
    (answer,) = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = {service.name for service in answer.list_services_response.service}
    assert {"tidegate.v1.TaskService", "tidegate.v1.PlanService", "grpc.health.v1.Health"} <= names


class _Broken(FakeEngine):
    def validate(self, plan: object, options: object) -> object:
        raise ZeroDivisionError("secret detail")


def test_a_bug_is_logged_with_its_traceback_and_internal_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    with (
        fake_server(_Broken()) as address,
        tidegate.connect(address) as client,
        caplog.at_level(logging.ERROR),
        pytest.raises(tidegate.InternalError, match="server's log") as bug,
    ):
        client.validate(b"")
    assert "secret" not in str(bug.value)
    assert "ZeroDivisionError: secret detail" in caplog.text


class _Picky(FakeEngine):
    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems

    def prepare(self, *_: object) -> object:
        raise PlanError(*self.problems)


def test_a_plans_problems_travel_with_their_places() -> None:
    problems = [Problem(place=f"relations[{n}]", reason="R", message=f"wrong {n} ü") for n in range(5)]
    with (
        fake_server(_Picky(*problems)) as address,
        tidegate.connect(address) as client,
        pytest.raises(tidegate.PlanError) as refused,
    ):
        client.create_task(b"plan")
    assert list(refused.value.problems) == problems


def test_more_problems_than_headers_hold_are_counted() -> None:
    problems = [Problem(place="p" * 100, reason="R", message="ü" * 200) for _ in range(500)]
    with (
        fake_server(_Picky(*problems)) as address,
        tidegate.connect(address) as client,
        pytest.raises(tidegate.PlanError) as refused,
    ):
        client.create_task(b"plan")
    *shown, last = refused.value.problems
    assert shown == problems[: len(shown)]
    assert last.message == f"{500 - len(shown)} more problems: Validate lists them"


def test_validate_lists_the_problems_that_do_not_fit_into_an_error(tmp_path: Path) -> None:
    wrong = json.dumps(plan(project(table(I64), *[field(9)] * 250), ["a"] * 251))
    with fake_server(PlanEngine([], tmp_path)) as address, tidegate.connect(address) as client:
        with pytest.raises(PlanError) as refused:
            client.create_task(wrong)
        listed = client.validate(wrong)
    *shown, counted, left = refused.value.problems
    assert shown == list(listed[: len(shown)])
    assert counted == listed[-1]
    assert (counted.reason, counted.message) == ("TOO_MANY_PROBLEMS", "150 more problems")
    assert left.message == f"{len(listed) - len(shown) - 1} more problems: Validate lists them"


def test_a_message_beyond_the_limit_is_refused_with_the_limit() -> None:
    with (
        fake_server(max_message_bytes=10_000) as address,
        tidegate.connect(address) as client,
        pytest.raises(tidegate.Exhausted, match=r"at most 10,000 are allowed.*give data as files"),
    ):
        client.validate(b"x" * 20_000)


def test_an_epoch_beyond_the_limit_is_refused_and_the_next_one_runs() -> None:
    with (
        fake_server(max_message_bytes=70_000) as address,
        tidegate.connect(address) as client,
        client.create_task(b"plan") as task,
    ):
        with pytest.raises(tidegate.Exhausted, match="at most 70,000 are allowed"):
            task.run_epoch({"a": pa.table({"x": range(50_000)})})
        assert task.run_epoch({"a": pa.table({"x": [1]})}).rows == 1


def test_two_hundred_long_polls_stop_nobody_and_take_no_threads(address: str, stubs: Stubs) -> None:
    channels = [grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(20)]
    before = {thread.name for thread in threading.enumerate()}
    task, other = stubs.create(), stubs.create()
    polls = [
        channels[n % 20]
        .unary_unary("/tidegate.v1.TaskService/Next")
        .future(pb.NextRequest(task=task, wait_ms=60_000).SerializeToString())
        for n in range(200)
    ]
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=other, source="a", split=inline(1)))
    stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=other))
    assert rows(stubs.next(other, wait_ms=60_000)) == [1]
    waiting = {thread.name for thread in threading.enumerate()} - before
    assert len([name for name in waiting if name.startswith("tidegate")]) <= 10
    assert not any(poll.done() for poll in polls)
    stubs.tasks.NoMoreSplits(pb.NoMoreSplitsRequest(task=task))
    for poll in polls:
        assert pb.NextResponse.FromString(poll.result(timeout=60)).frames[0].WhichOneof("kind") == "finished"
    for channel in channels:
        channel.close()


def test_a_waiter_that_leaves_leaves_nothing_behind() -> None:
    with manager() as backend, served(backend) as address, grpc.insecure_channel(address) as channel:
        info = backend.create_task(None, replace(backend.defaults, idle_seconds=IDLE), {})
        poll = channel.unary_unary("/tidegate.v1.TaskService/Next").future(
            pb.NextRequest(task=info.id, wait_ms=60_000).SerializeToString()
        )
        await_waiter(backend.list_tasks)
        poll.cancel()
        _until(lambda: not backend.list_tasks())


def _until(condition: object) -> None:
    pause = threading.Event()
    for _ in range(2_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to that")


def test_the_servers_end_sends_waiters_away() -> None:
    with manager() as backend:
        info = backend.create_task(None, replace(backend.defaults, idle_seconds=IDLE), {})
        with served(backend) as address:
            channel = grpc.insecure_channel(address)
            poll = channel.unary_unary("/tidegate.v1.TaskService/Next").future(
                pb.NextRequest(task=info.id, wait_ms=60_000).SerializeToString()
            )
            await_waiter(backend.list_tasks)
        assert poll.exception(timeout=30).code() is grpc.StatusCode.UNAVAILABLE
        assert "shutting down" in poll.exception().details()
        channel.close()


def test_the_servers_end_ends_a_call_in_which_nothing_is_said() -> None:
    with manager() as backend:
        task = backend.create_task(None, backend.defaults, {}).id
        with served(backend, grace_seconds=60.0) as address:
            channel = grpc.insecure_channel(address)
            requests = SimpleQueue[pb.AddSplitsRequest]()
            answers = tasks_pb2_grpc.TaskServiceStub(channel).Feed(iter(requests.get, None))
            requests.put(pb.AddSplitsRequest(task=task))
            next(answers)
        assert answers.code() is grpc.StatusCode.UNAVAILABLE
        assert "shutting down" in answers.details()
        requests.put(None)
        channel.close()


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with manager() as backend, pytest.raises(Unavailable, match=listen):
            _listen(backend, listen)


def _listen(backend: object, listen: str) -> None:
    import asyncio

    from tidegate.server.serving import Server
    from tidegate.server.setup.settings import Settings

    async def run() -> None:
        async with Server(backend, Settings(listen=listen)):
            raise AssertionError("it listens")

    asyncio.run(run())


def test_a_unix_socket_will_do(tmp_path: Path) -> None:
    with fake_server(listen=f"unix:{tmp_path}/s") as address, tidegate.connect(address) as client:
        assert client.capabilities().version == "0"


def test_capabilities_over_stock_stubs(stubs: Stubs) -> None:
    assert stubs.plans.Capabilities(plans_pb2.CapabilitiesRequest()).version == "0"
    assert stubs.plans.Explain(plans_pb2.ExplainRequest(plan=pb.PlanBytes(json="{}"))).text == "fake"
    assert not stubs.plans.Validate(plans_pb2.ValidateRequest(plan=pb.PlanBytes(json="{}"))).problems

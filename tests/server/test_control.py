"""Calls that look at tasks and end them go through whatever epochs run; so does the server's end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import grpc
import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.tidegate.v1 import plans_pb2, plans_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.relations import UserOperator
from tidegate.server.endpoints.task_service import LONGEST_LOAN

from ..executor.fakes import FakeEngine
from ..executor.operated_plans import I64, operated, plan, read
from ..waiting import until
from .conftest import Stubs, inline, kinds
from .fake_process import server_process
from .running import manager, served

FEEDERS = 12
DEADLINE = 30.0


def epoch_request(task: str, epoch: int) -> pb.AddSplitsRequest:
    """A whole epoch in a call."""
    request = pb.AddSplitsRequest(task=task, epoch=epoch, barrier=pb.Seal())
    request.splits.add(source="a", split=inline(epoch))
    getattr(request.read, "from").epoch = epoch
    request.read.acknowledge.epoch = epoch
    return request


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(gate=threading.Event())


@pytest.fixture
def long_epochs(engine: FakeEngine, stubs: Stubs) -> Iterator[list[str]]:
    """Tasks whose first epoch was short, and whose second goes on until the test is over."""
    assert engine.gate is not None
    engine.gate.set()
    tasks = [stubs.create() for _ in range(FEEDERS)]
    for task in tasks:
        stubs.tasks.AddSplits(epoch_request(task, 1), timeout=DEADLINE)
        assert kinds(stubs.next(task, wait_ms=20_000)) == ["data", "barrier"]
    engine.gate.clear()
    yield tasks
    engine.gate.set()


def test_calls_that_lend_their_threads_to_long_epochs_are_answered_that_work_goes_on(
    stubs: Stubs, long_epochs: list[str]
) -> None:
    answers = [stubs.tasks.AddSplits.future(epoch_request(task, 2), timeout=DEADLINE) for task in long_epochs]
    for answer in answers:
        (frame,) = answer.result().read.frames
        assert frame.blocked.state == pb.Blocked.STATE_WORKING
    assert LONGEST_LOAN <= 0.05


def test_every_other_call_is_answered_while_long_epochs_run(stubs: Stubs, long_epochs: list[str]) -> None:
    for task in long_epochs:
        stubs.tasks.AddSplits(epoch_request(task, 2), timeout=DEADLINE)
    first, second = long_epochs[:2]
    assert len(stubs.tasks.ListTasks(pb.ListTasksRequest(), timeout=DEADLINE).tasks) == FEEDERS
    created = stubs.tasks.CreateTask(pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan")), timeout=DEADLINE).task.id
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=created, source="a", split=inline(1)), timeout=DEADLINE)
    assert stubs.tasks.RequestBarrier(pb.RequestBarrierRequest(task=created), timeout=DEADLINE).epoch == 1
    stubs.plans.Explain(plans_pb2.ExplainRequest(plan=pb.PlanBytes(json="{}")), timeout=DEADLINE)
    stubs.tasks.CancelTask(pb.CancelTaskRequest(task=first), timeout=DEADLINE)
    stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=second), timeout=DEADLINE)
    assert stubs.tasks.GetTask(pb.GetTaskRequest(task=first), timeout=DEADLINE).state == pb.TASK_STATE_CANCELLED


def test_an_epoch_that_was_lent_a_thread_is_read_when_it_has_ended(
    engine: FakeEngine, stubs: Stubs, long_epochs: list[str]
) -> None:
    assert engine.gate is not None
    for task in long_epochs:
        stubs.tasks.AddSplits(epoch_request(task, 2), timeout=DEADLINE)
    engine.gate.set()
    for task in long_epochs:
        assert kinds(stubs.next(task, epoch=2, wait_ms=20_000)) == ["data", "barrier"]


def test_the_servers_end_cancels_tasks_before_it_waits_for_calls() -> None:
    engine = FakeEngine(gate=threading.Event())
    with manager(engine) as backend:
        with served(backend, grace_seconds=60.0) as address, grpc.insecure_channel(address) as channel:
            task = backend.create_task(None, backend.defaults, {}).id
            add = channel.unary_unary("/tidegate.v1.TaskService/AddSplits")
            add(epoch_request(task, 1).SerializeToString())
            until(lambda: engine.computations[0].clocks)
            began = time.monotonic()
        assert time.monotonic() - began < 30.0
        with pytest.raises(tidegate.Unavailable, match="shutting down"):
            backend.create_task(None, backend.defaults, {})
        assert engine.computations[0].interrupted.is_set()


def test_a_process_ends_whatever_code_a_task_runs() -> None:
    arguments = ("serve", "--listen=127.0.0.1:0", "--operators=tests.server.owners_operators")
    sleeping = plan(operated(UserOperator(name="sleep"), read("numbers", {"k": I64})), ["k"])
    with server_process("tidegate.server.cli", *arguments) as server, tidegate.connect(server.address) as client:
        task = client.create_task(sleeping)
        task.add_split("numbers", pa.table({"k": [1]}))
        task.request_barrier()
        assert server.process.stdout is not None
        while server.process.stdout.readline() != "asleep\n":
            pass
        assert server.end() == 1


def test_a_server_ends_within_seconds_while_it_reads_a_plan() -> None:
    """Reading cannot be stopped: the call is refused, and the interpreter is not taken down under its thread."""
    arguments = ("serve", "--listen=127.0.0.1:0", "--operators=tests.server.owners_operators")
    endless = plan(operated(UserOperator(name="never"), read("numbers", {"k": I64})), ["k"])
    with server_process("tidegate.server.cli", *arguments) as server, grpc.insecure_channel(server.address) as channel:
        request = plans_pb2.ValidateRequest(plan=pb.PlanBytes(binary=endless))
        call = plans_pb2_grpc.PlanServiceStub(channel).Validate.future(request)
        assert server.process.stdout is not None
        while server.process.stdout.readline() != "planning\n":
            assert not call.done()
        assert server.end() == 0
        assert "taken down" not in server.process.stdout.read()
        assert call.exception().code() is grpc.StatusCode.UNAVAILABLE
        assert "the server is shutting down" in call.exception().details()

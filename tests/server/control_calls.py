"""Every control call, timed, and clients whose epochs are long beside them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import grpc
import pyarrow as pa

import tidegate
from tidegate.proto.tidegate.v1 import plans_pb2, plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from ..executor import plans
from .conftest import Stubs, inline

_LONG: Final = plans.plan(plans.summed(plans.crossed(plans.read("t", "k"), plans.read("u", "v"))), "k", "s")
_SMALL: Final = plans.passed_through("t")
_OTHERS: Final = 1_000
"""Rows that each row of a long epoch is crossed with."""
_WAIT: Final = 120.0
_PAUSE: Final = 0.01


def _long_epoch(task: tidegate.Task, rows: int) -> str | None:
    """Why the epoch's answer is wrong, if it is."""
    splits = {"t": pa.table({"k": [0] * rows}), "u": pa.table({"v": list(range(_OTHERS))})}
    answer = task.run_epoch(splits).table().to_pydict()
    right = {"k": [0], "s": [rows * sum(range(_OTHERS))]}
    return None if answer == right else f"a long epoch has the answer {answer}, not {right}"


def run_long_epochs(address: str, clients: int, epoch_seconds: float, seconds: float) -> list[str]:
    """So many clients run epochs that last about `epoch_seconds` on an idle machine: what was wrong."""
    wrong: list[str] = []
    with tidegate.connect(address, flight=False) as client, client.create_task(_LONG.json or "") as task:
        rows = 10_000
        _long_epoch(task, rows)
        began = time.monotonic()
        _long_epoch(task, rows)
        rows = max(rows, int(rows * epoch_seconds / (time.monotonic() - began)))
    until = time.monotonic() + seconds

    def feed() -> None:
        try:
            with tidegate.connect(address, flight=False) as client, client.create_task(_LONG.json or "") as task:
                while time.monotonic() < until:
                    if (problem := _long_epoch(task, rows)) is not None:
                        wrong.append(problem)
        except tidegate.TidegateError as error:
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=feed) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def time_control_calls(address: str, file: Path, done: Callable[[], bool]) -> dict[str, list[float]]:
    """Seconds of each call by its method, over and over until it is `done`, and then once more.

    `file` has rows of the column `x`, and is below the server's roots.
    """
    seconds_by_call: dict[str, list[float]] = defaultdict(list)
    with grpc.insecure_channel(address) as channel:
        stubs = Stubs(channel, tasks_pb2_grpc.TaskServiceStub(channel), plans_pb2_grpc.PlanServiceStub(channel))
        grpc.channel_ready_future(channel).result(_WAIT)
        ended = False
        while not ended:
            ended = done()
            _control(stubs, str(file), seconds_by_call)
    return seconds_by_call


def _control(stubs: Stubs, file: str, seconds_by_call: dict[str, list[float]]) -> None:
    """A task's life, and a look at everything."""

    def timed(call: Callable[..., object], request: object) -> object:
        began = time.perf_counter()
        answer = call(request, timeout=_WAIT)
        seconds_by_call[type(request).__name__.removesuffix("Request")].append(time.perf_counter() - began)
        time.sleep(_PAUSE)
        return answer

    plan, tasks = pb.PlanBytes(json=_SMALL.json or ""), stubs.tasks
    timed(stubs.plans.Capabilities, plans_pb2.CapabilitiesRequest())
    timed(stubs.plans.Validate, plans_pb2.ValidateRequest(plan=plan))
    timed(stubs.plans.Explain, plans_pb2.ExplainRequest(plan=plan))
    created = timed(tasks.CreateTask, pb.CreateTaskRequest(plan=plan))
    assert isinstance(created, pb.CreateTaskResponse)
    task = created.task.id
    timed(tasks.ListTasks, pb.ListTasksRequest())
    timed(tasks.GetTask, pb.GetTaskRequest(task=task))
    timed(lambda request, timeout: next(tasks.WatchTask(request, timeout=timeout)), pb.WatchTaskRequest(task=task))
    timed(tasks.FindFiles, pb.FindFilesRequest(task=task, source="t", file=pb.FileSplit(path=file), pieces=True))
    timed(tasks.DropUploads, pb.DropUploadsRequest(task=task, group="none"))
    timed(tasks.ListCheckpoints, pb.ListCheckpointsRequest(task=task))
    timed(partial(_refused, tasks.RecoverTask), pb.RecoverTaskRequest(task=task))  # it has not failed
    timed(tasks.GetTransaction, pb.GetTransactionRequest(task=task, application="none"))
    timed(tasks.AddSplit, pb.AddSplitRequest(task=task, source="t", split=inline(1)))
    looked = pb.NextRequest(task=task)
    getattr(looked, "from").epoch = 1
    timed(tasks.Next, looked)
    timed(tasks.Acknowledge, pb.AcknowledgeRequest(task=task, cursor=pb.Cursor(epoch=1)))
    timed(tasks.RequestBarrier, pb.RequestBarrierRequest(task=task))
    timed(tasks.NoMoreSplits, pb.NoMoreSplitsRequest(task=task))
    timed(tasks.CancelTask, pb.CancelTaskRequest(task=task))
    timed(tasks.DeleteTask, pb.DeleteTaskRequest(task=task))


def _refused(call: Callable[..., object], request: object, timeout: float) -> None:
    """A call that the server refuses, because of the state of its task."""
    try:
        call(request, timeout=timeout)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
            raise

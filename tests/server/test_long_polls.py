"""Waiting is cheap on a server as it is started for real."""

from __future__ import annotations

import os
import sys

import grpc
import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.tidegate.v1 import tasks_pb2_grpc

from ..executor import plans
from .fake_process import server_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_two_hundred_long_polls_neither_stop_another_task_nor_take_threads() -> None:
    plan = plans.passed_through("a").json
    numbers = pa.table({"x": pa.array([1, 2], pa.int64())})
    command = ("tidegate.server.cli", "serve", "--listen", "127.0.0.1:0")
    with (
        server_process(*command) as server,
        tidegate.connect(server.address) as client,
        grpc.insecure_channel(server.address) as channel,
    ):
        idle, busy = client.create_task(plan), client.create_task(plan)
        busy.run_epoch({"a": numbers})
        before = _threads(server.process.pid)
        request = pb.NextRequest(task=idle.id, wait_ms=60_000)
        stub = tasks_pb2_grpc.TaskServiceStub(channel)
        polls = [stub.Next.future(request) for _ in range(200)]
        assert busy.run_epoch({"a": numbers}).table().equals(numbers)
        assert not any(poll.done() for poll in polls)
        assert _threads(server.process.pid) - before <= 10
        idle.no_more_splits()
        kinds = [poll.result(timeout=60).frames[0].WhichOneof("kind") for poll in polls]
        assert kinds == ["finished"] * 200


def _threads(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/task"))

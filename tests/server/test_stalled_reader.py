"""A reader that stalls slows its task and never fills the server's memory."""

from __future__ import annotations

import sys
import time

import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import MIB

from ..executor import plans
from .fake_process import ServerProcess, server_process

LIMITS = {"output_bytes": 8 * MIB, "spill_quota": 12 * MIB}
TIMES = 200  # MiB of output: ten times the limits together
# What the limits leave free to the allocator, the transport's window and answers under way.
SLACK = 96 * MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def _settled(task: tidegate.Task) -> int:
    """The output held, once it no longer grows."""
    before, now = -1, 0
    while now == 0 or now != before:
        time.sleep(0.2)
        statistics = task.statistics()
        before, now = now, statistics.output_bytes_held + statistics.spilled_bytes
    return now


def _fed(client: tidegate.Client) -> tidegate.Task:
    task = client.create_task(b"plan", **LIMITS)
    task.add_split("a", pa.table({"x": pa.array(range(131_072), pa.int64())}))
    task.request_barrier()
    return task


def _idle_memory(server: ServerProcess, client: tidegate.Client) -> int:
    with client.create_task(b"plan") as warm:
        warm.statistics()
    return server.memory()


def _crossed(client: tidegate.Client, times: int) -> tidegate.Task:
    """A task with a sealed epoch of 1,000 rows times so many."""
    plan = plans.plan(plans.crossed(plans.read("t", "k"), plans.read("u", "v")), "k", "v")
    task = client.create_task(plan.json, memory_limit=64 * MIB, **LIMITS)
    task.add_split("t", pa.table({"k": pa.array(range(times), pa.int64())}))
    task.add_split("u", pa.table({"v": pa.array(range(1_000), pa.int64())}))
    task.request_barrier()
    return task


def test_nobody_reads() -> None:
    with server_process("tests.server.fake_process", str(TIMES)) as server, tidegate.connect(server.address) as client:
        idle = _idle_memory(server, client)
        task = _fed(client)
        assert _settled(task) <= sum(LIMITS.values())
        assert server.memory() - idle < sum(LIMITS.values()) + SLACK
        assert task.read_epoch().num_rows == TIMES * 131_072
        assert server.memory() - idle < sum(LIMITS.values()) + SLACK


@pytest.mark.parametrize("flight", [True, False], ids=["DoGet", "Results"])
def test_a_stream_is_not_read(flight: bool) -> None:
    with (
        server_process("tests.server.fake_process", str(TIMES)) as server,
        tidegate.connect(server.address, flight=flight) as client,
    ):
        idle = _idle_memory(server, client)
        task = _fed(client)
        stream = task.service._streams.open(pb.ResultsRequest(task=task.id), task.schema)
        next(stream)
        _settled(task)
        assert server.memory() - idle < sum(LIMITS.values()) + SLACK
        assert server.end() == 0
        stream.cancel()


def test_nobody_reads_what_a_real_plan_makes() -> None:
    times = TIMES * MIB // 16_000
    command = ("tidegate.server.cli", "serve", "--listen", "127.0.0.1:0")
    with server_process(*command) as server, tidegate.connect(server.address) as client:
        assert _crossed(client, 1).read_epoch().num_rows == 1_000
        idle = server.memory()
        task = _crossed(client, times)
        assert _settled(task) <= sum(LIMITS.values())
        assert task.read_epoch().num_rows == times * 1_000
        assert server.memory() - idle < sum(LIMITS.values()) + 64 * MIB + SLACK

"""Stock generated stubs against a server over a fake engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pyarrow as pa
import pytest

from tidegate.proto.tidegate.v1 import plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from .running import fake_server


@dataclass
class Stubs:
    channel: grpc.Channel
    tasks: tasks_pb2_grpc.TaskServiceStub
    plans: plans_pb2_grpc.PlanServiceStub

    def create(self, **options: object) -> str:
        plan = pb.PlanBytes(binary=b"plan")
        return self.tasks.CreateTask(pb.CreateTaskRequest(plan=plan, options=pb.TaskOptions(**options))).task.id

    def next(self, task: str, epoch: int = 1, row: int = 0, **more: object) -> list[pb.Frame]:
        request = pb.NextRequest(task=task, **{"from": pb.Cursor(epoch=epoch, row=row)}, **more)
        return list(self.tasks.Next(request).frames)


def inline(*values: int) -> pb.Split:
    """An inline split of these numbers."""
    table = pa.table({"x": pa.array(values, pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pb.Split(inline=pb.InlineSplit(arrow=sink.getvalue().to_pybytes()))


def rows(frames: list[pb.Frame]) -> list[int]:
    """The numbers in DATA frames."""
    schema = pa.schema([("x", pa.int64())])
    batches = [batch for frame in frames for batch in frame.data.batches]
    return [n for batch in batches for n in pa.ipc.read_record_batch(pa.py_buffer(batch), schema)["x"].to_pylist()]


def kinds(frames: list[pb.Frame]) -> list[str]:
    return [frame.WhichOneof("kind") for frame in frames]


@pytest.fixture
def address() -> Iterator[str]:
    with fake_server() as listening:
        yield listening


@pytest.fixture
def stubs(address: str) -> Iterator[Stubs]:
    with grpc.insecure_channel(address) as channel:
        yield Stubs(channel, tasks_pb2_grpc.TaskServiceStub(channel), plans_pb2_grpc.PlanServiceStub(channel))

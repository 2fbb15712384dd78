"""Stock generated stubs against a server over a fake engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
import pyarrow as pa
import pytest

from tidegate.proto.address import beside
from tidegate.proto.encoding.flight_messages import SERVICE
from tidegate.proto.encoding.wire_format import fields, varint
from tidegate.proto.tidegate.v1 import plans_pb2, plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from ..executor.fakes import FakeEngine
from .running import fake_server

Results = Callable[[pb.ResultsRequest], Iterator[list[pb.Frame]]]


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
    return pb.Split(inline=pb.InlineSplit(arrow=stream_of(pa.table({"x": pa.array(values, pa.int64())}))))


def stream_of(table: pa.Table) -> bytes:
    """The table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def rows(frames: list[pb.Frame]) -> list[int]:
    """The numbers in DATA frames."""
    schema = pa.schema([("x", pa.int64())])
    batches = [batch for frame in frames for batch in frame.data.batches]
    return [n for batch in batches for n in pa.ipc.read_record_batch(pa.py_buffer(batch), schema)["x"].to_pylist()]


def kinds(frames: list[pb.Frame]) -> list[str]:
    return [frame.WhichOneof("kind") for frame in frames]


@pytest.fixture
def engine() -> FakeEngine:
    """Of the server; a test may be parametrised with another one."""
    return FakeEngine()


@pytest.fixture
def address(engine: FakeEngine) -> Iterator[str]:
    with fake_server(engine) as listening:
        yield listening


@pytest.fixture
def stubs(address: str) -> Iterator[Stubs]:
    with grpc.insecure_channel(address) as channel:
        yield Stubs(channel, tasks_pb2_grpc.TaskServiceStub(channel), plans_pb2_grpc.PlanServiceStub(channel))


@pytest.fixture(params=["Results", "DoGet"])
def results(request: pytest.FixtureRequest, stubs: Stubs, address: str) -> Iterator[Results]:
    """Both streams of results, by any client: what each answer has of frames."""
    if request.param == "Results":
        yield lambda asked: (list(answer.frames) for answer in stubs.tasks.Results(asked))
        return
    where = beside(address, stubs.plans.Capabilities(plans_pb2.CapabilitiesRequest()).flight)
    with grpc.insecure_channel(where, options=[("grpc.max_receive_message_length", -1)]) as channel:
        yield over_flight(channel)


def over_flight(channel: grpc.Channel) -> Results:
    do_get = channel.unary_stream(f"/{SERVICE}/DoGet")

    def read(request: pb.ResultsRequest) -> Iterator[list[pb.Frame]]:
        ticket = pb.FlightTicket(results=request).SerializeToString()
        answers = do_get(b"\x0a" + varint(len(ticket)) + ticket)
        next(answers)  # the schema
        return ([frame_of(answer)] for answer in answers)

    return read


def frame_of(answer: bytes) -> pb.Frame:
    """The frame of a `FlightData`, its batch as the IPC message that `Results` would send."""
    parts = {number: bytes(value) for number, value in fields(memoryview(answer)) if isinstance(value, memoryview)}
    frame = pb.Frame.FromString(parts[3])
    if frame.HasField("data"):
        frame.data.batches.append(b"\xff\xff\xff\xff" + len(parts[2]).to_bytes(4, "little") + parts[2] + parts[1000])
    return frame

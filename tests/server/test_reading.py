"""Requests are read where they hold nobody up, and refused with a reason where they are too large."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

import tidegate
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.encoding.request_parts import has_more_parts
from tidegate.proto.encoding.wire_format import varint
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.tidegate.v1 import tasks_pb2_grpc
from tidegate.server.calls import request_reading as reading
from tidegate.server.endpoints.plan_service import Plans
from tidegate.server.endpoints.task_service import Tasks

from ..searching import every
from .conftest import Stubs, inline
from .fake_process import server_process
from .running import fake_server
from .test_malformed import METHODS, call, reason

MIB = 1 << 20
SMALL = [method for method in METHODS if method.name not in Tasks.large | Plans.large]
LARGE = [method for method in METHODS if method.name in Tasks.large | Plans.large]


@pytest.fixture
def address() -> Iterator[str]:
    with fake_server(max_message_bytes=MIB) as listening:
        yield listening


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that made messages, by what they do."""
    names: list[str] = []

    def checked(_: Message) -> None:
        names.append(threading.current_thread().name.rpartition("-")[0])

    monkeypatch.setattr(reading, "check_request", checked)
    return names


@pytest.mark.parametrize("method", LARGE, ids=[method.name for method in LARGE])
def test_a_request_above_the_limit_is_refused_with_its_reason(
    stubs: Stubs, method: object, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError, match="has 1,048,577 bytes; at most 1,048,576 are allowed") as refused:
        call(stubs.channel, method, bytes(MIB + 1))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reason(refused.value) == "REQUEST_TOO_LARGE"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("method", SMALL, ids=[method.name for method in SMALL])
def test_a_request_without_data_or_a_plan_is_refused_above_64_kib(stubs: Stubs, method: MethodDescriptor) -> None:
    field = varint(99 << 3 | 2)  # unknown, so that the request is a message of the method, whatever its size

    def answer(size: int) -> str:
        data = field + varint(size - 5) + bytes(size - 5)
        try:
            call(stubs.channel, method, data)
        except grpc.RpcError as error:
            return reason(error)
        return ""

    assert answer(64 << 10) not in ("REQUEST_TOO_LARGE", "MALFORMED_REQUEST")
    assert answer((64 << 10) + 1) == "REQUEST_TOO_LARGE"


@pytest.mark.parametrize("method", every(4, METHODS), ids=[method.name for method in METHODS])
def test_a_request_far_above_the_limit_is_ended_by_grpc(
    stubs: Stubs, method: object, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError, match="larger than max") as refused:
        call(stubs.channel, method, bytes(MIB + reading.MARGIN + 1))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_client_gives_its_reason_to_what_grpc_ends(address: str) -> None:
    with tidegate.connect(address) as client:
        task = client.create_task(b"plan")
        wide = pa.table({"x": pa.array(range(MIB), pa.int64())})
        with pytest.raises(tidegate.Exhausted, match="takes no call of this size") as refused:
            task.add_split("a", wide)
        assert refused.value.reason == "REQUEST_TOO_LARGE"


def test_the_client_gives_its_reason_to_an_answer_that_grpc_ends(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["x" * (2 * MIB)]}), tmp_path / "rows.parquet")
    plan = sub.read_named_table("a", {"k": sub.string}).to_plan().SerializeToString()
    with (
        fake_server(PlanEngine([str(tmp_path)], tmp_path), max_message_bytes=MIB) as address,
        tidegate.connect(address) as client,
        pytest.raises(tidegate.Exhausted, match="a row of the result is too large") as refused,
    ):
        client.query(plan, {"a": str(tmp_path / "rows.parquet")})
    assert refused.value.reason == "ANSWER_TOO_LARGE"


def test_a_large_request_is_read_off_the_event_loop_and_a_small_one_on_it(stubs: Stubs, readers: list[str]) -> None:
    task = stubs.create()
    readers.clear()
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1)))
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(*range(10_000))))
    stubs.tasks.GetTask(pb.GetTaskRequest(task=task))
    assert [name == "tidegate-read" for name in readers] == [False, True, False]


def test_every_large_method_of_one_answer_reads_off_the_event_loop(stubs: Stubs, readers: list[str]) -> None:
    for method in LARGE:
        readers.clear()
        with pytest.raises(grpc.RpcError):
            call(stubs.channel, method, b"\x0a\x04none\x7a\xa0\x8d\x06" + bytes(100_000))
        assert set(readers) <= {"tidegate-read"}, method.name


def test_a_request_of_very_many_parts_is_refused_before_a_message_is_made_of_it(readers: list[str]) -> None:
    with fake_server() as address, grpc.insecure_channel(address) as channel:
        readers.clear()
        (add,) = (method for method in METHODS if method.name == "AddSplits")
        with pytest.raises(grpc.RpcError, match="at most 1,000,000 are allowed") as refused:
            call(channel, add, b"\x12\x00" * (reading.MOST_PARTS + 1))
        assert reason(refused.value) == "REQUEST_TOO_LARGE"
        assert readers == []


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (pb.AddSplitsRequest(), 0),
        (pb.AddSplitsRequest(task="t", epoch=3), 2),
        (pb.AddSplitsRequest(splits=[pb.SplitOfSource(source="a", split=inline(1))] * 3), 15),
        (pb.FileSplit(row_groups=range(100)), 101),
        (pb.Seal(through={"a": 1, "b": 2}), 6),
        (pb.TaskOptions(idle_seconds=1.0), 1),
    ],
    ids=["nothing", "numbers", "messages", "packed numbers", "a map", "a double"],
)
def test_parts_are_the_fields_of_a_message_and_of_those_inside_it(message: Message, parts: int) -> None:
    data = message.SerializeToString()
    assert not has_more_parts(data, message.DESCRIPTOR, parts)
    assert parts == 0 or has_more_parts(data, message.DESCRIPTOR, parts - 1)


@pytest.mark.parametrize("data", [b"\x12\x05", b"\x0b", b"\xff" * 11], ids=repr)
def test_bytes_that_are_no_message_have_no_parts(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"field|varint"):
        has_more_parts(data, pb.AddSplitsRequest.DESCRIPTOR, 10)


@pytest.mark.parametrize("method", ["CreateTask", "Feed", "Upload"])
def test_a_compressed_request_is_refused_with_a_reason_and_not_unpacked(
    address: str, method: str, readers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    (described,) = (candidate for candidate in METHODS if candidate.name == method)
    readers.clear()
    with (
        grpc.insecure_channel(address, compression=grpc.Compression.Gzip) as channel,
        pytest.raises(grpc.RpcError, match="send it without compression") as refused,
    ):
        call(channel, described, bytes(16 * MIB))  # 16 KiB, compressed
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason(refused.value) == "COMPRESSED_REQUEST"
    assert readers == []
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_request_that_is_compressed_as_deflate_is_ended_by_grpc(address: str) -> None:
    """Such bytes may look like a message, so they must not come as one."""
    plan = pb.PlanBytes(binary=bytes(1 << 20))
    with (
        grpc.insecure_channel(address, compression=grpc.Compression.Deflate) as channel,
        pytest.raises(grpc.RpcError, match="'deflate' is disabled") as refused,
    ):
        tasks_pb2_grpc.TaskServiceStub(channel).CreateTask(pb.CreateTaskRequest(plan=plan), timeout=20)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_grpc_writes_no_line_of_its_own_for_a_compressed_request(compression: grpc.Compression, tmp_path: Path) -> None:
    plan, log = pb.PlanBytes(binary=bytes(1 << 16)), tmp_path / "log"
    command = ("tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--root", str(tmp_path))
    with (
        log.open("w") as stderr,
        server_process(*command, stderr=stderr) as server,
        grpc.insecure_channel(server.address, compression=compression) as channel,
    ):
        with pytest.raises(grpc.RpcError, match=r"without compression|'deflate' is disabled"):
            tasks_pb2_grpc.TaskServiceStub(channel).CreateTask(pb.CreateTaskRequest(plan=plan), timeout=20)
        assert server.end() == 0
    assert "shutting down" in log.read_text()
    assert ".cc:" not in log.read_text()

"""Bytes that are no message, and numbers that no request may have: an answer with a reason, and no traceback."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import grpc
import pyarrow as pa
import pytest
from google.protobuf.descriptor import MethodDescriptor

from tidegate.proto.tidegate.v1 import plans_pb2
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.endpoints.reflection_service import NAME as REFLECTION

from .conftest import Stubs, inline, stream_of

GARBAGE = b"\xff\xff\xff\xff"
METHODS = [
    method
    for file in (pb.DESCRIPTOR, plans_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
]


def call(channel: grpc.Channel, method: MethodDescriptor, data: bytes) -> None:
    """Call a method with these bytes as its request, and take all that it answers."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    if method.client_streaming and method.server_streaming:
        list(channel.stream_stream(path)(iter([data])))
    elif method.client_streaming:
        channel.stream_unary(path)(iter([data]))
    elif method.server_streaming:
        list(channel.unary_stream(path)(data))
    else:
        channel.unary_unary(path)(data)


LONG = "x" * 0x31313  # its end stands nowhere else in the data
PAST_THE_END = (0x7FFFFFF0).to_bytes(4, "little")
DAMAGED = pb.Split(
    inline=pb.InlineSplit(
        arrow=stream_of(pa.table({"x": ["", LONG, "end"]})).replace(len(LONG).to_bytes(4, "little"), PAST_THE_END)
    )
)
"""Text of which one value has its end beyond all text."""


def adding(task: str, *splits: pb.Split) -> pb.AddSplitsRequest:
    return pb.AddSplitsRequest(task=task, splits=[pb.SplitOfSource(source="a", split=split) for split in splits])


def reason(error: grpc.RpcError) -> str:
    return dict(error.trailing_metadata())["tidegate-reason"]


@pytest.mark.parametrize("method", METHODS, ids=[method.name for method in METHODS])
def test_bytes_that_are_no_message_are_refused_with_the_name_of_what_was_wanted(
    stubs: Stubs, method: MethodDescriptor, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call(stubs.channel, method, GARBAGE)
    error = refused.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason(error) == "MALFORMED_REQUEST"
    assert method.input_type.full_name in error.details()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(("later", "said"), [(GARBAGE, "MALFORMED_REQUEST"), (None, "MALFORMED_ARROW")])
def test_a_later_message_of_a_feed_that_is_damaged_is_refused_and_what_came_before_stays(
    stubs: Stubs, later: bytes | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = stubs.create()
    answered = threading.Event()

    def messages() -> Iterator[bytes]:
        yield adding(task, inline(1)).SerializeToString()
        assert answered.wait(60)
        yield later or adding(task, DAMAGED).SerializeToString()

    answers = stubs.channel.stream_stream("/tidegate.v1.TaskService/Feed")(messages())
    next(answers)
    answered.set()
    with pytest.raises(grpc.RpcError) as refused:
        list(answers)
    assert reason(refused.value) == said
    assert stubs.tasks.GetTask(pb.GetTaskRequest(task=task)).sources[0].last_added == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_damaged_arrow_among_splits_is_refused_and_names_its_split(stubs: Stubs) -> None:
    task = stubs.create()
    with pytest.raises(grpc.RpcError) as refused:
        stubs.tasks.AddSplits(adding(task, inline(1), DAMAGED))
    assert reason(refused.value) == "MALFORMED_ARROW"


@pytest.mark.parametrize(
    ("data", "said"), [(GARBAGE, "MALFORMED_REQUEST"), (b"\x3a\x80\x80\x04" + bytes(1 << 16), "REQUEST_TOO_LARGE")]
)
def test_reflection_refuses_what_is_no_small_message_of_its_own(
    stubs: Stubs, data: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        list(stubs.channel.stream_stream(f"/{REFLECTION}/ServerReflectionInfo")(iter([data])))
    assert reason(refused.value) == said
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_the_largest_number_of_a_split_is_one_and_there_is_none_after_it(stubs: Stubs) -> None:
    task = stubs.create()
    largest = 2**63 - 1
    stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1), sequence=largest))
    with pytest.raises(grpc.RpcError, match=f"split {largest + 1}.* is out of range: .* from 1 to {largest}"):
        stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1)))
    with pytest.raises(grpc.RpcError, match="sequence=18446744073709551615 must be a split's number"):
        stubs.tasks.AddSplit(pb.AddSplitRequest(task=task, source="a", split=inline(1), sequence=2**64 - 1))
    assert stubs.tasks.GetTask(pb.GetTaskRequest(task=task)).sources[0].last_added == largest
    assert [listed.id for listed in stubs.tasks.ListTasks(pb.ListTasksRequest()).tasks] == [task]


def test_seconds_that_no_clock_has_stop_no_timer(stubs: Stubs) -> None:
    with pytest.raises(grpc.RpcError, match=r"idle_seconds=10000000000\.0 must be a number of seconds"):
        stubs.create(idle_seconds=1e10)
    longest = stubs.create(idle_seconds=315_360_000.0)
    short = stubs.create(idle_seconds=0.05)
    listed = pb.ListTasksRequest()
    for _ in range(1_000):
        if [task.id for task in stubs.tasks.ListTasks(listed).tasks] == [longest]:
            return
        time.sleep(0.02)
    raise AssertionError(f"the idle task {short} is still there")


def test_a_field_of_a_newer_client_is_ignored(stubs: Stubs) -> None:
    task = stubs.create()
    newer = pb.GetTaskRequest(task=task).SerializeToString() + bytes([0x98, 0x06, 0x07])  # field 99 is 7
    answer = stubs.channel.unary_unary("/tidegate.v1.TaskService/GetTask")(newer)
    assert pb.Task.FromString(answer).id == task


def test_a_call_that_only_a_newer_server_has_is_unimplemented(stubs: Stubs) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        stubs.channel.unary_unary("/tidegate.v1.TaskService/CallOfTomorrow")(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED

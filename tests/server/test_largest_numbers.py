"""Every number of every request, at the ends of what its type holds: an answer or a refusal, and the task goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tidegate.proto.tidegate.v1 import tasks_pb2 as pb

from ..waiting import until
from .attack import BUGS
from .conftest import Stubs, inline
from .test_malformed import METHODS, call, reason

Path = tuple[FieldDescriptor, ...]

_ENDS: Final = {
    FieldDescriptor.CPPTYPE_UINT64: (2**63 - 1, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (2**31, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: (1.7e308, -1.0, math.inf, math.nan),
}
_DEEPEST: Final = 4


def numbers(descriptor: Descriptor, above: Path = ()) -> Iterator[Path]:
    """The ways to each number in a message."""
    for field in descriptor.fields:
        if field.cpp_type in _ENDS:
            yield (*above, field)
        elif field.message_type is not None and len(above) < _DEEPEST:
            yield from numbers(field.message_type, (*above, field))


def set_number(message: Message, path: Path, value: Any) -> None:
    field, *below = path
    if not below:
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    elif field.message_type.GetOptions().map_entry:
        entries = getattr(message, field.name)
        if len(below) == 1:
            entries["a"] = value
        else:
            set_number(entries["a"], tuple(below[1:]), value)
    else:
        set_number(_below(message, field), tuple(below), value)


def _below(message: Message, field: FieldDescriptor) -> Message:
    below = getattr(message, field.name)
    if field.is_repeated:
        return below.add()
    below.SetInParent()
    return below


def request(method: MethodDescriptor, task: str, path: Path, value: Any) -> bytes:
    """A request that would be right but for one number."""
    message = GetMessageClass(method.input_type)()
    fields = method.input_type.fields_by_name
    if "task" in fields:
        message.task = task
    if "source" in fields:
        message.source = "a"
    if method.name == "AddSplit":
        message.split.CopyFrom(inline(1))
    if method.name == "CreateTask":
        message.plan.binary = b"plan"
    set_number(message, path, value)
    for split in getattr(message, "splits", ()):
        split.source = "a"
        if not split.HasField("split"):
            split.split.CopyFrom(inline(1))
    return message.SerializeToString()


def refusal(channel: grpc.Channel, method: MethodDescriptor, data: bytes) -> grpc.RpcError | None:
    try:
        call(channel, method, data)
    except grpc.RpcError as error:
        return error
    return None


def end(stubs: Stubs, task: str) -> None:
    stubs.tasks.NoMoreSplits(pb.NoMoreSplitsRequest(task=task))
    until(lambda: stubs.tasks.GetTask(pb.GetTaskRequest(task=task)).state == pb.TASK_STATE_FINISHED)


CASES = [
    pytest.param(method, path, id=f"{method.name}.{'.'.join(field.name for field in path)}")
    for method in METHODS
    for path in numbers(method.input_type)
]


@pytest.mark.parametrize(("method", "path"), CASES)
def test_no_number_is_a_bug_or_the_end_of_a_task(
    stubs: Stubs, method: MethodDescriptor, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for value in _ENDS[path[-1].cpp_type]:
        task = stubs.create()
        if method.server_streaming or method.name == "Next":  # they would wait for what does not come
            end(stubs, task)
        refused = refusal(stubs.channel, method, request(method, task, path, value))
        assert refused is None or refused.code() not in BUGS, (value, refused.details())
        assert refused is None or reason(refused), value
        if method.name not in ("DeleteTask", "CancelTask"):
            assert stubs.tasks.GetTask(pb.GetTaskRequest(task=task)).id == task
        listed = stubs.tasks.ListTasks(pb.ListTasksRequest()).tasks
        for created in listed:
            stubs.tasks.DeleteTask(pb.DeleteTaskRequest(task=created.id))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

"""Requests that are made up, by structure and by bytes: is each answered, and none with a bug?

`make attack` sends 100,000 to a service over a real engine; the tests a few hundred.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tidegate.executor.service.embedded import open_service
from tidegate.proto.tidegate.v1 import plans_pb2
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import PlanBytes, TaskOptions

from ..executor import plans
from .running import served

METHODS: Final = tuple(
    method
    for file in (pb.DESCRIPTOR, plans_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
)
BUGS: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED})
SECONDS: Final = 0.25
"""How long a call may wait for what does not come."""
PLAN: Final = plans.plan(plans.read("l", "k"), "k")

_DEEPEST: Final = 6
_NUMBERS: Final = (0, 1, 2, 7, 63, 64, 255, 2**16, 2**31 - 1)
_TEXTS: Final = ("", "l", "k", "a", "/", "../..", "*.parquet", "\0", "é" * 50, "x" * 3_000, "{}", '{"relations": []}')


class Attack:
    """Requests by a seed; `tasks` are the ids that some of them name."""

    def __init__(self, seed: int, tasks: list[str]) -> None:
        self._draw = random.Random(seed)
        self._tasks = tasks

    def request(self, method: MethodDescriptor) -> bytes:
        """The bytes of a message that is right but for what is in it, or of one that was damaged."""
        message = GetMessageClass(method.input_type)()
        self._fill(message, 0)
        data = bytearray(message.SerializeToString())
        for _ in range(self._draw.choice((0, 0, 0, 1, 3))):
            self._damage(data)
        return bytes(data)

    def _fill(self, message: Message, depth: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if self._draw.random() < 0.5 or depth > _DEEPEST:
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                continue
            if field.is_repeated:
                for _ in range(self._draw.choice((0, 1, 3))):
                    self._add(message, field, depth)
            elif field.message_type is not None:
                below = getattr(message, field.name)
                below.SetInParent()
                self._fill(below, depth + 1)
            else:
                setattr(message, field.name, self._value(field))

    def _add(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        values = getattr(message, field.name)
        if field.message_type is not None:
            self._fill(values.add(), depth + 1)
        else:
            values.append(self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        draw = self._draw
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING:
                if field.type == FieldDescriptor.TYPE_BYTES:
                    return draw.choice((b"", draw.randbytes(40), PLAN.binary or b"", b"\xff\xff\xff\xff\x10\0\0\0"))
                return draw.choice(self._tasks) if field.name == "task" else draw.choice(_TEXTS)
            case FieldDescriptor.CPPTYPE_BOOL:
                return draw.random() < 0.5
            case FieldDescriptor.CPPTYPE_DOUBLE:
                return draw.choice((0.0, -1.0, 1e300, float("nan"), float("inf"), 0.5))
            case FieldDescriptor.CPPTYPE_ENUM:
                return draw.randrange(9)
            case _:
                return draw.choice(_NUMBERS)

    def _damage(self, data: bytearray) -> None:
        at = self._draw.randrange(len(data) + 1)
        match self._draw.randrange(3):
            case 0:
                data[at : at + 1] = self._draw.randbytes(1)
            case 1:
                del data[at:]
            case _:
                data[at:at] = self._draw.randbytes(self._draw.randrange(1, 9))


def send(channel: grpc.Channel, method: MethodDescriptor, data: bytes) -> grpc.StatusCode:
    """How the call ended."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    try:
        if method.client_streaming and method.server_streaming:
            list(channel.stream_stream(path)(iter([data]), timeout=SECONDS))
        elif method.client_streaming:
            channel.stream_unary(path)(iter([data]), timeout=SECONDS)
        elif method.server_streaming:
            list(channel.unary_stream(path)(data, timeout=SECONDS))
        else:
            channel.unary_unary(path)(data, timeout=60.0)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def attack(requests: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How calls ended, and the requests that met a bug; the service has to answer afterwards."""
    ends: Counter[str] = Counter()
    bugs: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        service = open_service(roots=[Path(folder)], defaults=TaskOptions(idle_seconds=5.0, epoch_seconds=2.0))
        try:
            with served(service) as address, grpc.insecure_channel(address) as channel:
                tasks = ["", "none"]
                made = Attack(seed, tasks)
                draw = random.Random(seed)
                for number in range(requests):
                    if number % 500 == 0:
                        tasks[2:] = [service.create_task(_plan(), service.defaults, {}).id for _ in range(2)]
                        report(number, ends)
                    method = draw.choice(METHODS)
                    data = made.request(method)
                    code = send(channel, method, data)
                    ends[code.name] += 1
                    if code in BUGS:
                        bugs.append(f"{method.name} {code.name} {data.hex()}")
                service.list_tasks()
        finally:
            service.close()
    return ends, bugs


def _plan() -> PlanBytes:
    return PLAN


def resident() -> int:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) >> 8


def report(number: int, ends: Counter[str]) -> None:
    if number and number % 5_000 == 0:
        print(f"{number:,} requests, {resident()} MiB: {dict(ends)}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    ends, bugs = attack(options.requests, options.seed)
    print(f"{dict(ends)}, {resident()} MiB at the end")
    print("\n".join(bugs))
    return bool(bugs)


if __name__ == "__main__":
    sys.exit(main())

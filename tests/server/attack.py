"""Requests that are made up, by structure and by bytes: is each answered, and none with a bug?

`make attack` sends 100,000 to a service over a real engine; the tests a few hundred.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from dataclasses import field as new
from functools import partial
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
AT_ONCE: Final = 8
"""Calls at a time: the others go on while one waits for what does not come."""
ROUND: Final = 500
"""Requests from one pair of tasks to the next."""
GROWTH: Final = 1.1
"""Memory at the end over that after a fifth of the requests, where it is flat."""
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


@dataclass(slots=True)
class Findings:
    """The ends of calls, the requests that met a bug, and MiB of this process after each round of requests."""

    ends: Counter[str] = new(default_factory=Counter)
    bugs: list[str] = new(default_factory=list)
    memory: list[int] = new(default_factory=list)

    @property
    def growth(self) -> float:
        return self.memory[-1] / self.memory[len(self.memory) // 5]


def attack(requests: int, seed: int) -> Findings:
    """Send the requests. The service has to answer afterwards."""
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        service = open_service(roots=[Path(folder)], defaults=TaskOptions(idle_seconds=5.0, epoch_seconds=2.0))
        try:
            with (
                served(service) as address,
                grpc.insecure_channel(address) as channel,
                ThreadPoolExecutor(AT_ONCE) as callers,
            ):
                tasks = ["", "none"]
                attack_ = Attack(seed, tasks)
                draw = random.Random(seed)
                for start in range(0, requests, ROUND):
                    tasks[2:] = [service.create_task(_plan(), service.defaults, {}).id for _ in range(2)]
                    methods = [draw.choice(METHODS) for _ in range(min(ROUND, requests - start))]
                    data = [attack_.request(method) for method in methods]
                    codes = callers.map(partial(send, channel), methods, data)
                    for method, datum, code in zip(methods, data, codes, strict=True):
                        findings.ends[code.name] += 1
                        if code in BUGS:
                            findings.bugs.append(f"{method.name} {code.name} {datum.hex()}")
                    findings.memory.append(resident())
                    report(start + len(methods), findings)
                service.list_tasks()
        finally:
            service.close()
    return findings


def _plan() -> PlanBytes:
    return PLAN


def resident() -> int:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) >> 8


def report(number: int, findings: Findings) -> None:
    if number % 5_000 == 0:
        print(f"{number:,} requests, {findings.memory[-1]} MiB: {dict(findings.ends)}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    started = time.monotonic()
    findings = attack(options.requests, options.seed)
    seconds = time.monotonic() - started
    print(f"{options.requests:,} requests in {seconds:,.0f} seconds: {dict(findings.ends)}")
    print("\n".join(findings.bugs))
    flat = findings.growth <= GROWTH
    print(f"{'met   ' if not findings.bugs else 'MISSED'} no request meets a bug: {len(findings.bugs)}")
    print(f"{'met   ' if flat else 'MISSED'} memory is flat: {findings.memory[-1]} MiB, {findings.growth:.2f} times")
    return 0 if flat and not findings.bugs else 1


if __name__ == "__main__":
    sys.exit(main())

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
from pathlib import Path
from typing import Any, Final, Self

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

import tidegate
from tidegate.executor.service.embedded import open_service
from tidegate.proto.encoding.flight_messages import SERVICE as FLIGHT
from tidegate.proto.encoding.wire_format import varint
from tidegate.proto.tidegate.v1 import plans_pb2
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import PlanBytes, TaskOptions

from ..executor import plans
from .running import flight_address, served


@dataclass(frozen=True, slots=True)
class Method:
    """A method of gRPC. The server of `is_flight` is another one, of a library that has a status for all refusals."""

    name: str
    service: str
    request: Descriptor
    takes_many: bool
    answers_many: bool
    is_flight: bool = False

    @classmethod
    def of(cls, method: MethodDescriptor) -> Self:
        service = method.containing_service.full_name
        return cls(method.name, service, method.input_type, method.client_streaming, method.server_streaming)


METHODS: Final = tuple(
    Method.of(method)
    for file in (pb.DESCRIPTOR, plans_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
)
DO_GET: Final = Method("DoGet", FLIGHT, pb.FlightTicket.DESCRIPTOR, False, True, True)
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

    def requests(self, method: Method) -> list[bytes]:
        """What is sent in a call: messages that are right but for what is in them, some of them damaged."""
        count = self._draw.choice((1, 1, 2, 5)) if method.takes_many else 1
        return [self._request(method) for _ in range(count)]

    def _request(self, method: Method) -> bytes:
        message = GetMessageClass(method.request)()
        self._fill(message, 0)
        data = bytearray(message.SerializeToString())
        for _ in range(self._draw.choice((0, 0, 0, 1, 3))):
            self._damage(data)
        return b"\x0a" + varint(len(data)) + data if method.is_flight else bytes(data)

    def _fill(self, message: Message, depth: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if self._draw.random() < 0.5 or depth > _DEEPEST:
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._fill_map(message, field, depth)
            elif field.is_repeated:
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

    def _fill_map(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        values = getattr(message, field.name)
        for _ in range(self._draw.choice((0, 1, 3))):
            if value.message_type is not None:
                self._fill(values[self._value(key)], depth + 1)
            else:
                values[self._value(key)] = self._value(value)

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


def send(channel: grpc.Channel, method: Method, messages: list[bytes]) -> grpc.StatusCode:
    """How the call ended."""
    path = f"/{method.service}/{method.name}"
    try:
        match method.takes_many, method.answers_many:
            case True, True:
                list(channel.stream_stream(path)(iter(messages), timeout=SECONDS))
            case True, False:
                channel.stream_unary(path)(iter(messages), timeout=SECONDS)
            case False, True:
                list(channel.unary_stream(path)(*messages, timeout=SECONDS))
            case _:
                channel.unary_unary(path)(*messages, timeout=60.0)
    except grpc.RpcError as error:
        return _code(error, method)
    return grpc.StatusCode.OK


def _code(error: grpc.RpcError, method: Method) -> grpc.StatusCode:
    reason = dict(error.trailing_metadata() or ()).get("tidegate-reason", "INTERNAL")
    if method.is_flight and error.code() is grpc.StatusCode.UNKNOWN and reason != "INTERNAL":
        return grpc.StatusCode.INVALID_ARGUMENT
    code: grpc.StatusCode = error.code()
    return code


@dataclass(slots=True)
class Findings:
    """The ends of calls, the requests that met a bug, and MiB of the server's process after each round of requests."""

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
                grpc.insecure_channel(_flight_address(address)) as flight,
                ThreadPoolExecutor(AT_ONCE) as callers,
            ):
                tasks = ["", "none"]
                attack_ = Attack(seed, tasks)
                draw = random.Random(seed)
                for start in range(0, requests, ROUND):
                    tasks[2:] = [service.create_task(_plan(), service.defaults, {}).id for _ in range(2)]
                    methods = [draw.choice((*METHODS, DO_GET)) for _ in range(min(ROUND, requests - start))]
                    calls = [attack_.requests(method) for method in methods]
                    channels = [flight if method.is_flight else channel for method in methods]
                    codes = callers.map(send, channels, methods, calls)
                    for method, messages, code in zip(methods, calls, codes, strict=True):
                        findings.ends[code.name] += 1
                        if code in BUGS:
                            sent = " ".join(message.hex() for message in messages)
                            findings.bugs.append(f"{method.name} {code.name} {sent}")
                    findings.memory.append(resident())
                    report(start + len(methods), findings)
                service.list_tasks()
        finally:
            service.close()
    return findings


def _flight_address(address: str) -> str:
    with tidegate.connect(address) as client:
        return flight_address(client)


def _plan() -> PlanBytes:
    return PLAN


def resident() -> int:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) >> 8


def report(number: int, findings: Findings) -> None:
    """Say how far it is, now and then."""
    if number % 1_000 == 0:
        print(
            f"{number:,} requests, {findings.memory[-1:]} MiB: {dict(findings.ends.most_common(8))}",
            file=sys.stderr,
            flush=True,
        )


def is_met(what: str, findings: Findings) -> bool:
    """True if there is no bug and memory is flat. Prints which of them is so."""
    print("\n".join(findings.bugs))
    flat = bool(findings.memory) and findings.growth <= GROWTH
    memory = f"{findings.memory[-1]} MiB, {findings.growth:.2f} times" if findings.memory else "the server has ended"
    print(f"{'met   ' if not findings.bugs else 'MISSED'} no {what} meets a bug: {len(findings.bugs)}")
    print(f"{'met   ' if flat else 'MISSED'} memory is flat: {memory}")
    return flat and not findings.bugs


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
    return 0 if is_met("request", findings) else 1


if __name__ == "__main__":
    sys.exit(main())

"""A server with tokens, and the calls of two principals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc

from tidegate.proto.tidegate.v1 import plans_pb2, plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.access.tokens import Tokens

from ..executor.fakes import FakeEngine
from .running import manager, served

QUOTA = 20_000
TOKENS = {"alice": "a" * 32, "bob": "b" * 32}
DEADLINE = 30.0


def of(who: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKENS[who]}"),)


def reason(error: grpc.RpcError) -> str:
    return dict(error.trailing_metadata())["tidegate-reason"]


class Callers:
    """Calls of two principals, each over a connection of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open = ExitStack()
        self.channels = {who: self._open.enter_context(grpc.insecure_channel(address)) for who in TOKENS}
        self.tasks = {who: tasks_pb2_grpc.TaskServiceStub(channel) for who, channel in self.channels.items()}
        self.plans = {who: plans_pb2_grpc.PlanServiceStub(channel) for who, channel in self.channels.items()}

    def create(self, who: str, plan: bytes = b"plan") -> str:
        request = pb.CreateTaskRequest(plan=pb.PlanBytes(binary=plan))
        return self.tasks[who].CreateTask(request, metadata=of(who), timeout=DEADLINE).task.id

    def upload(self, who: str, data: bytes, task: str = "") -> str:
        requests = iter([pb.UploadRequest(task=task, name="x.csv", data=data)])
        return self.tasks[who].Upload(requests, metadata=of(who), timeout=DEADLINE).path

    def next(self, who: str, task: str, wait: float = 60.0) -> grpc.Future:
        request = pb.NextRequest(task=task, wait_ms=int(1000 * wait), **{"from": pb.Cursor(epoch=1)})
        return self.tasks[who].Next.future(request, metadata=of(who))

    def capabilities(self, who: str) -> plans_pb2.CapabilitiesResponse:
        return self.plans[who].Capabilities(plans_pb2.CapabilitiesRequest(), metadata=of(who), timeout=DEADLINE)

    def close(self) -> None:
        self._open.close()


@contextmanager
def calling(
    tmp_path: Path, engine: FakeEngine | None = None, spill_quota: int = QUOTA, **settings: object
) -> Iterator[Callers]:
    path = tmp_path / "tokens"
    path.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
    path.chmod(0o600)
    with (
        manager(engine, principals=True, spill_quota=spill_quota) as backend,
        served(backend, tokens=Tokens(path), defaults=backend.defaults, **settings) as address,
    ):
        callers = Callers(address)
        try:
            yield callers
        finally:
            callers.close()


def stalled(callers: Callers, who: str, method: str = "Validate") -> grpc.Future:
    """A call whose request does not come."""
    never = threading.Event()

    def requests() -> Iterator[bytes]:
        never.wait(DEADLINE)
        yield b""

    path = f"/tidegate.v1.PlanService/{method}"
    return callers.channels[who].stream_unary(path).future(requests(), metadata=of(who))

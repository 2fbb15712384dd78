"""Every test of the client runs twice: in this process and over gRPC."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tidegate.client import Client
from tidegate.task import Task

from ..executor.fakes import FakeEngine
from ..server.running import embedded_client, remote_client

Start = Callable[..., Task]


@pytest.fixture(params=["embedded", "grpc"])
def open_client(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Clients of a fake engine: `open_client(FakeEngine(...))`."""
    opener = {"embedded": embedded_client, "grpc": remote_client}[request.param]
    with contextlib.ExitStack() as stack:
        yield lambda engine=None: stack.enter_context(opener(engine))


@pytest.fixture
def start(open_client: Callable[..., Client]) -> Start:
    """A task: `start(FakeEngine(...), channels=1, ...)`."""

    def create(engine: FakeEngine | None = None, **options: object) -> Task:
        return open_client(engine).create_task(b"plan", **options)

    return create

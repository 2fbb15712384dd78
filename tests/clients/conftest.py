"""Every test of the client runs in this process and over gRPC; those that inject no faults over real plans too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate.client import Client
from tidegate.executor.api.engine import Engine
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.task import Task

from ..executor.fakes import FakeEngine
from ..executor.plans import passed_through
from ..server.running import embedded_client, remote_client

Start = Callable[..., Task]

PLAN = passed_through("a").json
"""For the engines of `engine`; the fake one takes any plan for this."""


@pytest.fixture(params=["embedded", "grpc"])
def open_client(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Clients of a fake engine: `open_client(FakeEngine(...))`."""
    opener = {"embedded": embedded_client, "grpc": remote_client}[request.param]
    with contextlib.ExitStack() as stack:
        yield lambda engine=None, **how: stack.enter_context(opener(engine, **how))


@pytest.fixture(params=["fake", "plans"])
def start(request: pytest.FixtureRequest, open_client: Callable[..., Client], tmp_path: Path) -> Start:
    """A task that hands on the rows of its sources: `start(sources=("a", "b"), channels=1, ...)`.

    With `early`, the first source's rows come before the seal; real plans of this kind always do that.
    """

    def create(*, sources: tuple[str, ...] = ("a",), early: bool = False, **options: object) -> Task:
        fake = FakeEngine(sources=sources, early=early)
        engine: Engine = PlanEngine([], tmp_path) if request.param == "plans" else fake
        return open_client(engine).create_task(passed_through(*sources).json, **options)

    return create


@pytest.fixture(params=["fake", "plans"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """What hands on the rows of a source `a` for `PLAN`: a few lines of a test, or the real engine."""
    return FakeEngine() if request.param == "fake" else PlanEngine([], tmp_path)


@pytest.fixture
def client(open_client: Callable[..., Client], engine: Engine) -> Client:
    return open_client(engine)


@pytest.fixture
def inject(open_client: Callable[..., Client]) -> Start:
    """A task of an engine that misbehaves: `inject(FakeEngine(...), channels=1, ...)`."""

    def create(engine: FakeEngine | None = None, **options: object) -> Task:
        return open_client(engine).create_task(b"plan", **options)

    return create

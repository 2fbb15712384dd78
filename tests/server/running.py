"""Servers for tests: in a thread of this process, over an engine of a few lines."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from tidegate.client import Client
from tidegate.executor.api.engine import Engine
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.address import beside
from tidegate.proto.values import TaskInfo, TaskOptions
from tidegate.server.calls.backend import Backend
from tidegate.server.serving import Server
from tidegate.server.setup.settings import Settings
from tidegate.transport.access import Access
from tidegate.transport.remote import RemoteService

from ..executor.fakes import FakeEngine, manager_of


@contextlib.contextmanager
def served(backend: Backend, **settings: object) -> Iterator[str]:
    """The address of a server over this backend."""
    address: Future[str] = Future()
    ended = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with Server(backend, Settings(**{"listen": "127.0.0.1:0", "grace_seconds": 1.0, **settings})) as server:
            address.set_result(server.address)
            await ended.wait()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # cancels what the server leaves, as its program does
            runner.run(run())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield address.result(timeout=20)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(timeout=20)


IDLE: Final = 1.5
"""The `idle_seconds` of a task that `await_waiter` is asked about."""


def await_waiter(tasks: Callable[[], Sequence[TaskInfo]]) -> None:
    """Return once a call waits for the only task there is, which would be idle without one, and gone by now."""
    threading.Event().wait(1.5 * IDLE)
    assert tasks(), "no call has waited for the task, which is gone"


def flight_address(client: Client) -> str:
    """Where a client's server has Arrow Flight."""
    address = beside(str(client.address), client.capabilities().flight)
    assert address is not None
    return address


@contextlib.contextmanager
def manager(
    engine: Engine | None = None, *, checkpoint_root: Path | None = None, principals: bool = False, **defaults: object
) -> Iterator[TaskManager]:
    task_manager = manager_of(
        engine or FakeEngine(),
        threads=2,
        checkpoint_root=checkpoint_root,
        principals=principals,
        defaults=TaskOptions(**defaults),
    )
    try:
        yield task_manager
    finally:
        task_manager.close()


@contextlib.contextmanager
def fake_server(
    engine: Engine | None = None, *, checkpoint_root: Path | None = None, **settings: object
) -> Iterator[str]:
    with manager(engine, checkpoint_root=checkpoint_root) as backend, served(backend, **settings) as address:
        yield address


@contextlib.contextmanager
def remote_client(
    engine: Engine | None = None, *, reconnect_seconds: float = 10.0, checkpoint_root: Path | None = None
) -> Iterator[Client]:
    with (
        fake_server(engine, checkpoint_root=checkpoint_root) as address,
        Client(RemoteService(Access(address=address, reconnect_seconds=reconnect_seconds))) as client,
    ):
        yield client


@contextlib.contextmanager
def embedded_client(engine: Engine | None = None, *, checkpoint_root: Path | None = None) -> Iterator[Client]:
    with manager(engine, checkpoint_root=checkpoint_root) as backend:
        yield Client(backend)

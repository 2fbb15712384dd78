"""Connections: of one machine no more than so many, and the newest are those that go."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import tidegate
from tidegate.proto.errors import Exhausted
from tidegate.server.access import doorkeeper
from tidegate.server.access.doorkeeper import Doorkeeper, most_connections
from tidegate.server.calls.call_threads import Threads

from .raw_http2 import RawConnection
from .running import fake_server


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        yield listening_socket


def address(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


class Calls:
    """Connections to a socket that listens, in the order in which they were made; both ends are in this process."""

    def __init__(self, listening: socket.socket, stack: ExitStack) -> None:
        self._listening = listening
        self._stack = stack
        self.sockets: list[socket.socket] = []
        self.accepted: list[socket.socket] = []

    def call(self, times: int) -> None:
        for _ in range(times):
            self.sockets.append(self._stack.enter_context(socket.create_connection(self._listening.getsockname())))
            self.accepted.append(self._stack.enter_context(self._listening.accept()[0]))

    def ended(self) -> list[bool]:
        """Which have been shut down by the other side."""
        ends = []
        for connection in self.sockets:
            connection.setblocking(False)
            try:
                ends.append(connection.recv(1) == b"")
            except BlockingIOError:
                ends.append(False)
        return ends


@pytest.fixture
def calls(listening: socket.socket) -> Iterator[Calls]:
    with ExitStack() as stack:
        yield Calls(listening, stack)


@pytest.mark.parametrize("bounds", [{"of_peer": 3, "most": 100}, {"of_peer": 100, "most": 3}])
def test_the_newest_connections_go_and_those_before_them_stay(
    listening: socket.socket, calls: Calls, bounds: dict[str, int]
) -> None:
    keeper = Doorkeeper(address(listening), **bounds)
    calls.call(2)
    assert keeper.look() == 0
    calls.call(3)
    assert keeper.look() == 2
    assert calls.ended()[:2] == [False, False]
    assert sum(calls.ended()) == 2


def test_who_has_left_makes_room(listening: socket.socket, calls: Calls) -> None:
    keeper = Doorkeeper(address(listening), of_peer=2, most=100)
    calls.call(2)
    assert keeper.look() == 0
    calls.sockets.pop(0).close()
    calls.accepted.pop(0).close()
    calls.call(1)
    assert keeper.look() == 0
    assert calls.ended() == [False, False]


def test_connections_to_elsewhere_are_not_counted(listening: socket.socket, calls: Calls) -> None:
    calls.call(4)
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert Doorkeeper(address(other), of_peer=1, most=1).look() == 0
    assert calls.ended() == [False] * 4


def test_the_connections_to_all_addresses_of_a_server_are_counted_together(
    listening: socket.socket, calls: Calls
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as beside, ExitStack() as stack:
        others = Calls(beside, stack)
        keeper = Doorkeeper(address(listening), address(beside), of_peer=100, most=4)
        calls.call(3)
        assert keeper.look() == 0
        others.call(3)
        assert keeper.look() == 2
        assert calls.ended() == [False] * 3
        assert sum(others.ended()) == 2


def test_half_of_the_files_are_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 4096))
    assert most_connections() == 512


@pytest.mark.parametrize("error", [OSError("no file"), Exhausted("no thread"), ValueError("a line of /proc")])
def test_a_look_that_fails_is_not_the_last_one(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    keeper = Doorkeeper(address(listening), of_peer=1, most=1)
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise error

    async def watch() -> None:
        threads = Threads(1, "look")
        watching = asyncio.ensure_future(keeper.watch(threads))
        async with asyncio.timeout(30):
            while len(looks) < 2:
                await asyncio.sleep(0.01)
        watching.cancel()
        threads.close(seconds=20)

    monkeypatch.setattr(doorkeeper, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(keeper, "_look_if_many", look)
    asyncio.run(watch())


def test_a_server_keeps_the_older_connections_of_a_machine_and_answers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "_LOOK_SECONDS", 0.05)
    with fake_server(connections_per_peer=3) as server, tidegate.connect(server) as client, ExitStack() as stack:
        client.tasks()
        older = [stack.enter_context(RawConnection(server)) for _ in range(2)]
        for connection in older:
            next(connection.frames(30.0))
        newer = [stack.enter_context(RawConnection(server)) for _ in range(4)]
        for connection in newer:
            list(connection.frames(30.0))
        assert list(client.tasks()) == []
        assert all(map(is_open, older))


def is_open(connection: RawConnection) -> bool:
    try:
        list(connection.frames(0.2))
    except TimeoutError:
        return True
    return False


FLOOD = """
import asyncio, resource, socket, sys
from tidegate.server.access.doorkeeper import Doorkeeper, most_connections
from tidegate.server.calls.call_threads import Threads

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


async def main(listening):
    host, port = listening.getsockname()
    keeper = Doorkeeper(f"{host}:{port}", of_peer=1000, most=most_connections())
    accepted = []

    async def accept():
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted.append((await loop.sock_accept(listening))[0])
            except OSError:
                await asyncio.sleep(0.05)

    threads = Threads(1, "look")
    tasks = [asyncio.create_task(accept()), asyncio.create_task(keeper.watch(threads))]
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    ended = oldest = 0
    for _ in range(100):
        ended = oldest = 0
        for connection in accepted:
            try:
                ended += connection.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
            except BlockingIOError:
                oldest += not ended
        if len(accepted) - ended <= most_connections():
            break
        await asyncio.sleep(0.1)
    print(len(accepted), len(accepted) - ended, oldest, not tasks[1].done(), flush=True)


with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
    listening.setblocking(False)
    asyncio.run(main(listening))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed as Linux does")
def test_a_server_that_may_open_few_files_keeps_half_of_them_when_connections_take_all() -> None:
    command = [sys.executable, "-c", FLOOD]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
        ExitStack() as stack,
    ):
        assert server.stdout is not None
        port = int(server.stdout.readline())
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        answer, _ = server.communicate("\n", timeout=60)
    accepted, still_open, oldest, watches = answer.split()
    assert int(accepted) > 64
    assert int(still_open) <= 64
    assert oldest == still_open
    assert watches == "True"

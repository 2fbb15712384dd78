"""Finds and ends the connections to a listening address of this process, which gRPC itself cannot do."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from ...proto.address import UNIX

log = logging.getLogger("tidegate.server")

_CUT_SECONDS: Final = 0.5  # between looks for connections that are still there at the end
_CUTS: Final = 3


@dataclass(frozen=True, slots=True)
class Connection:
    """The identity of a connection. While it is open, no other connection is equal to it."""

    local: str
    remote: str
    descriptor: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted connection. `peer` is the machine that called."""

    connection: Connection
    peer: str


class Sockets:
    """The sockets of this process, looked at one by one. It keeps a descriptor for copies, and so needs no free one: a
    process whose connections have taken all descriptors can still look at them. For one thread at a time.
    """

    def __init__(self) -> None:
        self._none = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._copy = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._none)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._copy)
        os.close(self._none)

    def accepted_at(self, *addresses: str) -> list[Accepted]:
        """Every connection that was accepted at HOST:PORT or unix:PATH."""
        own = (self._copy, self._none)
        accepted_ones = (self._accepted(descriptor, addresses) for descriptor in descriptors() if descriptor not in own)
        return [accepted for accepted in accepted_ones if accepted is not None]

    def shut_down(self, accepted: Accepted) -> None:
        """Shut a connection down, if it is still open."""
        with suppress(OSError), self._copied(accepted.connection.descriptor) as socket_:
            if _connection(accepted.connection.descriptor, socket_) == accepted.connection:
                socket_.shutdown(socket.SHUT_RDWR)

    def _accepted(self, descriptor: int, addresses: Sequence[str]) -> Accepted | None:
        try:
            with self._copied(descriptor) as socket_:
                local = socket_.getsockname()
                if not any(_is_at(socket_, local, address) for address in addresses):
                    return None
                peer = "this machine" if socket_.family == socket.AF_UNIX else str(socket_.getpeername()[0])
                return Accepted(_connection(descriptor, socket_), peer)
        except OSError:  # it is no socket, listens, or has ended
            return None

    @contextmanager
    def _copied(self, descriptor: int) -> Iterator[socket.socket]:
        """A copy of a socket, which stays the same socket meanwhile."""
        os.dup2(descriptor, self._copy, inheritable=False)
        try:
            socket_ = socket.socket(fileno=self._copy)
            try:
                yield socket_
            finally:
                socket_.detach()
        finally:
            os.dup2(self._none, self._copy, inheritable=False)


def descriptors() -> Sequence[int]:
    """The open descriptors; if there is none left to list them with, all that there can be."""
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def cut(address: str) -> int:
    """Shut down every connection that was accepted at HOST:PORT or unix:PATH; the number of them."""
    with Sockets() as sockets:
        connections = sockets.accepted_at(address)
        for accepted in connections:
            sockets.shut_down(accepted)
    return len(connections)


async def ended_or_cut(end: Awaitable[object], address: str, seconds: float) -> None:
    """Wait for the end of a listening server. After `seconds`, cut its connections: a server waits for ever for clients
    that do not read. Goes on without the end if that does not help.
    """
    ending = asyncio.ensure_future(end)
    await asyncio.wait({ending}, timeout=seconds)
    for _ in range(_CUTS):
        if ending.done():
            break
        log.info("the server has cut %d connections at %s", cut(address), address)
        await asyncio.wait({ending}, timeout=_CUT_SECONDS)
    if ending.done():
        await ending
    else:
        log.error("the server at %s has not ended, although its connections have been cut", address)


def _connection(descriptor: int, socket_: socket.socket) -> Connection:
    return Connection(str(socket_.getsockname()), str(socket_.getpeername()), descriptor)


def _is_at(socket_: socket.socket, local: Any, address: str) -> bool:
    if socket_.family == socket.AF_UNIX:
        return address == f"{UNIX}{local}"
    if socket_.family in (socket.AF_INET, socket.AF_INET6):
        return not address.startswith(UNIX) and bool(local[1] == int(address.rpartition(":")[2]))
    return False

"""Finds and ends the connections to a listening address of this process, which gRPC itself cannot do."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ...proto.address import UNIX

log = logging.getLogger("tidegate.server")

_CUT_SECONDS: Final = 0.5  # between looks for connections that are still there at the end
_CUTS: Final = 8


@dataclass(frozen=True, slots=True)
class Connection:
    """The identity of a connection. While it is open, no other connection is equal to it."""

    local: str
    remote: str
    descriptor: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """A copy of an accepted connection's socket, which the caller closes. `peer` is the machine that called."""

    connection: Connection
    peer: str
    socket: socket.socket

    def shut_down(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.socket.close()


def accepted_at(address: str) -> list[Accepted]:
    """Every connection that was accepted at HOST:PORT or unix:PATH."""
    connections = []
    for descriptor, socket_ in _sockets():
        accepted = _accepted(descriptor, socket_, address)
        if accepted is None:
            socket_.close()
        else:
            connections.append(accepted)
    return connections


def cut(address: str) -> int:
    """Shut down every connection that was accepted at HOST:PORT or unix:PATH; the number of them."""
    connections = accepted_at(address)
    for accepted in connections:
        accepted.shut_down()
        accepted.close()
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


def _accepted(descriptor: int, socket_: socket.socket, address: str) -> Accepted | None:
    try:
        remote, local = socket_.getpeername(), socket_.getsockname()
    except OSError:  # it listens, or has ended
        return None
    if not _is_at(socket_, local, address):
        return None
    peer = "this machine" if socket_.family == socket.AF_UNIX else str(remote[0])
    return Accepted(Connection(str(local), str(remote), descriptor), peer, socket_)


def _sockets() -> Iterator[tuple[int, socket.socket]]:
    """Each open socket, by its descriptor, as a copy, so that it stays the same socket meanwhile."""
    copies: set[int] = set()
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor in copies:  # the descriptor of the listing itself is free again, and may now be a copy's
            continue
        with suppress(OSError):
            copy = os.dup(descriptor)
            try:
                socket_ = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                continue
            copies.add(copy)
            yield descriptor, socket_


def _is_at(socket_: socket.socket, local: Any, address: str) -> bool:
    if socket_.family == socket.AF_UNIX:
        return address == f"{UNIX}{local}"
    if socket_.family in (socket.AF_INET, socket.AF_INET6):
        return not address.startswith(UNIX) and bool(local[1] == int(address.rpartition(":")[2]))
    return False

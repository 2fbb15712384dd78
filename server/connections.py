"""The connections of this process to one of its own listening addresses, which its server does not let us end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

from ..proto.address import UNIX


def cut(address: str) -> int:
    """Shut down every connection that was accepted at HOST:PORT or unix:PATH; how many there were."""
    count = 0
    for each in _sockets():
        with each, suppress(OSError):
            if _accepted_at(each, address):
                each.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _sockets() -> Iterator[socket.socket]:
    """A copy of each that is open, so that it stays what it is meanwhile."""
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):
            copy = os.dup(int(name))
            try:
                found = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                continue
            yield found


def _accepted_at(each: socket.socket, address: str) -> bool:
    each.getpeername()  # OSError of one that listens
    name = each.getsockname()
    if each.family == socket.AF_UNIX:
        return address == f"{UNIX}{name}"
    if each.family in (socket.AF_INET, socket.AF_INET6):
        return not address.startswith(UNIX) and name[1] == int(address.rpartition(":")[2])
    return False

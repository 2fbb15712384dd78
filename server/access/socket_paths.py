"""Checks the path of a Unix socket before a server listens there, because gRPC takes the path of a running server."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from typing import Final

from ...proto.address import UNIX
from ...proto.errors import Unavailable

_LONGEST: Final = 107
"""The bytes of a path that the system's address of a socket has room for."""
_SECONDS: Final = 1.0


def check_socket_path(address: str) -> None:
    """Raise `Unavailable` if a server cannot listen at `unix:PATH`, or another one does.

    A socket that nobody listens at, which a killed server has left, is free. Other addresses are not looked at.
    """
    if address.startswith(UNIX) and (problem := _problem(address.removeprefix(UNIX))):
        raise Unavailable(f"cannot listen on {address}: {problem}", reason="CANNOT_LISTEN")


def _problem(path: str) -> str:
    if not path:
        return "give the path of a socket, unix:PATH"
    if (size := len(os.fsencode(path))) > _LONGEST:
        return f"the path has {size} bytes, and that of a socket may have {_LONGEST}"
    if not os.path.isdir(folder := os.path.dirname(path) or "."):
        return f"there is no folder {folder}"
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return ""
    if not stat.S_ISSOCK(kind):
        return "there is something else than a socket at this path: remove it, or use another path"
    if _is_served(path):
        return "another server listens there: stop it, or use another path"
    return ""


def _is_served(path: str) -> bool:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as caller:
        caller.settimeout(_SECONDS)
        try:
            caller.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:  # it is busy, or of another user: not ours to take
            return True
    return True

"""Addresses of servers."""

from __future__ import annotations

import os.path
from ipaddress import ip_address
from typing import Final

UNIX: Final = "unix:"


def is_address(text: object) -> bool:
    """True for HOST:PORT or unix:PATH. gRPC would take a port beyond 65535 for another port, and a missing port for
    443.
    """
    if not isinstance(text, str):
        return False
    host, separator, port = text.rpartition(":")
    whole = bool(host) and "/" not in host and separator == ":" and port.isascii() and port.isdigit()
    return text.startswith(UNIX) or (whole and len(port) <= 5 and int(port) < 1 << 16)


def is_loopback(address: str) -> bool:
    """True where the listener or caller at this address is on this machine."""
    host = address.rpartition(":")[0].strip("[]")
    if address.startswith(UNIX) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def placeless(address: str) -> str:
    """`:PORT` or `unix:NAME`: an address without its host or folder, which may go by other names elsewhere."""
    if address.startswith(UNIX):
        return UNIX + os.path.basename(address)
    return address[address.rindex(":") :]


def beside(address: str, other: str) -> str | None:
    """The whole address for the placeless address `other` of the server that is reached at `address`; None where the
    two do not go together.
    """
    if address.startswith(UNIX) != other.startswith(UNIX):
        return None
    if address.startswith(UNIX):
        return UNIX + os.path.join(os.path.dirname(address.removeprefix(UNIX)), other.removeprefix(UNIX))
    return address.rpartition(":")[0] + other

"""Where a server is."""

from __future__ import annotations

from ipaddress import ip_address


def is_address(text: object) -> bool:
    """HOST:PORT or unix:PATH; gRPC would take a port beyond 65535 for another one, and none for 443."""
    if not isinstance(text, str):
        return False
    host, separator, port = text.rpartition(":")
    whole = bool(host) and "/" not in host and separator == ":" and port.isascii() and port.isdigit()
    return text.startswith("unix:") or (whole and len(port) <= 5 and int(port) < 1 << 16)


def is_loopback(address: str) -> bool:
    """Whether who listens there, or calls there, is on this machine."""
    host = address.rpartition(":")[0].strip("[]")
    if address.startswith("unix:") or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

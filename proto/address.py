"""Where a server is."""

from __future__ import annotations


def is_address(text: object) -> bool:
    """HOST:PORT or unix:PATH; gRPC would take a port beyond 65535 for another one, and none for 443."""
    if not isinstance(text, str):
        return False
    host, separator, port = text.rpartition(":")
    whole = bool(host) and "/" not in host and separator == ":" and port.isascii() and port.isdigit()
    return text.startswith("unix:") or (whole and len(port) <= 5 and int(port) < 1 << 16)

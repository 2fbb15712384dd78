"""Connections that speak just enough HTTP/2 to do what no client library does: stall, and take no answer."""

from __future__ import annotations

import socket
import struct
from typing import Final, Self

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW: Final = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class RawConnection:
    """A connection to HOST:PORT. With `window=0` the server may send headers, but no data."""

    def __init__(self, address: str, window: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        settings = b"" if window is None else struct.pack(">HI", _INITIAL_WINDOW, window)
        self.socket.sendall(_PREFACE + frame(_SETTINGS, 0, 0, settings))
        self._stream = -1

    def begin(self, path: str, declared: int, data: bytes = b"", token: str = "") -> int:
        """Begin a call whose request has `declared` bytes, and send `data` of them; its stream."""
        self._stream += 2
        head = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "x",
            "content-type": "application/grpc",
            "te": "trailers",
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        coded = b"".join(b"\0" + _text(name) + _text(value) for name, value in head.items())
        self.socket.sendall(frame(_HEADERS, _END_HEADERS, self._stream, coded))
        self.socket.sendall(frame(_DATA, 0, self._stream, b"\0" + struct.pack(">I", declared) + data))
        return self._stream

    def call(self, path: str, request: bytes = b"", token: str = "") -> None:
        """Make a call with a whole request, and do not wait for its answer."""
        stream = self.begin(path, len(request), request, token)
        self.socket.sendall(frame(_DATA, _END_STREAM, stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def _text(text: str) -> bytes:
    """A text of fewer than 127 bytes in HPACK, as it is."""
    return bytes([len(text)]) + text.encode()

"""Connections that speak just enough HTTP/2 to do what no client library does: stall, and take no answer."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Final, Self

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _WINDOW_UPDATE = 0, 1, 4, 8
_END_STREAM, _END_HEADERS = 1, 4
_INITIAL_WINDOW: Final = 4
_PART: Final = 16_384


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

    def send(self, kind: int, flags: int, payload: bytes, stream: int = 0) -> None:
        self.socket.sendall(frame(kind, flags, stream, payload))

    def frames(self, seconds: float) -> Iterator[tuple[int, int, bytes]]:
        """The kind, flags and payload of what comes, until the server ends the connection. Raises `TimeoutError`."""
        self.socket.settimeout(seconds)
        while head := self._received(9):
            kind, flags = head[3], head[4]
            yield kind, flags, self._received(int.from_bytes(head[:3]))

    def _received(self, size: int) -> bytes:
        """So many bytes, or none if the connection has ended."""
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError:
                part = b""
            if not part:
                return b""
            data += part
        return data

    def pour(self, stream: int, size: int, seconds: float) -> int:
        """Send so many bytes of a request, as the windows of the server allow. The bytes that it took in that time."""
        windows = {0: 65_535, stream: 65_535}
        ends, sent = time.monotonic() + seconds, 0
        while sent < size and (left := ends - time.monotonic()) > 0:
            if part := min(size - sent, _PART, *windows.values()):
                self.send(_DATA, 0, bytes(part), stream)
                sent += part
                windows = {number: window - part for number, window in windows.items()}
            if not part or select.select([self.socket], [], [], 0)[0]:
                try:
                    self._allow(windows, left)
                except (TimeoutError, StopIteration):
                    break
        return sent

    def _allow(self, windows: dict[int, int], seconds: float) -> None:
        """Take one frame of the server, and what it adds to the windows."""
        self.socket.settimeout(seconds)
        head = self._received(9)
        if not head:
            raise StopIteration
        payload, stream = self._received(int.from_bytes(head[:3])), int.from_bytes(head[5:9])
        if head[3] == _WINDOW_UPDATE and stream in windows:
            windows[stream] += int.from_bytes(payload)
        elif head[3] == _SETTINGS and not head[4] & _END_STREAM:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == _INITIAL_WINDOW:
                    windows.update({number: window + value - 65_535 for number, window in windows.items() if number})
            self.send(_SETTINGS, _END_STREAM, b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def _text(text: str) -> bytes:
    """A text of fewer than 127 bytes in HPACK, as it is."""
    return bytes([len(text)]) + text.encode()

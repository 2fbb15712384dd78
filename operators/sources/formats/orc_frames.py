"""Frames between the server and a process that decodes ORC: a kind, a length, bytes. Nothing in them is unpickled."""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import pyarrow as pa

#: The most bytes that a frame can have, and that any process may take beside what it starts with.
MEMORY: Final = 4 << 30
#: The status of a process that ended because a file took more than the memory for it.
OUT_OF_MEMORY: Final = 77
#: The most bytes that a file's footer may take.
FOOTER: Final = 256 << 20
#: A file's rows, and about the bytes of these. Its schema follows.
DESCRIPTION: Final = struct.Struct("<qq")
_HEADER: Final = struct.Struct("<BQ")

Wait = Callable[[], None]
_Part = TypeVar("_Part", bytearray, memoryview)


class Kind(enum.IntEnum):
    """A frame's kind. To the process: `OPEN` (with a file's descriptor), `READ`, `CLOSE`. From it: the others."""

    READY = 1
    OPEN = 2
    FOUND = 3
    READ = 4
    ROWS = 5
    END = 6
    WRONG = 7
    CLOSE = 8


def send(to: socket.socket, kind: Kind, data: bytes | memoryview | pa.Buffer = b"", files: Sequence[int] = ()) -> None:
    """`OSError` where the other end is gone."""
    size = data.size if isinstance(data, pa.Buffer) else len(data)
    header = _HEADER.pack(kind, size)
    if files:
        socket.send_fds(to, [header], list(files))
    else:
        to.sendall(header)
    if size:
        to.sendall(data)


def receive(source: socket.socket, wait: Wait = lambda: None) -> tuple[Kind, pa.Buffer]:
    """The next frame; `EOFError` where the other end is gone, `ValueError` where it sends no frames. `wait` is called
    before each part is read, and may raise.
    """
    header = _filled(source, bytearray(_HEADER.size), wait)
    return _with_body(source, header, wait)


def receive_with_file(source: socket.socket) -> tuple[Kind, pa.Buffer, int | None]:
    """As `receive`, with the descriptor that came along."""
    header, files, _, _ = socket.recv_fds(source, _HEADER.size, 1)
    if not header:
        raise EOFError
    rest = _filled(source, bytearray(_HEADER.size - len(header)), lambda: None)
    kind, body = _with_body(source, bytearray(header) + rest, lambda: None)
    return kind, body, files[0] if files else None


def _with_body(source: socket.socket, header: bytearray, wait: Wait) -> tuple[Kind, pa.Buffer]:
    kind, size = _HEADER.unpack(header)
    if size > MEMORY:
        raise ValueError(f"a frame of {size:,} bytes")
    body = pa.allocate_buffer(size)
    if size:
        _filled(source, memoryview(body).cast("B"), wait)
    return Kind(kind), body


def _filled(source: socket.socket, part: _Part, wait: Wait) -> _Part:
    rest = memoryview(part)
    while rest:
        wait()
        count = source.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return part

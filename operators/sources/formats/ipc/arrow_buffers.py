"""Buffers of a record batch, read in parts and in order.

A compressed buffer begins with its decoded length. It is decoded as a stream, as far as its bytes are asked for, so a
buffer of any length takes the memory of a part, and of the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from .decoder_memory import window_bytes

#: The most that a decoder takes, beside its window.
_DECODER_BYTES: Final = 2 << 20
_PREFIX: Final = 8
_AS_IT_IS: Final = -1
#: Bytes behind a part that the next part may begin with: an offset, or a byte that has bits of both.
_KEPT: Final = 8
_SKIPPED: Final = 1 << 20


class Buffer(Protocol):
    """A buffer of `length` bytes. Parts are asked for in order, and may overlap by `_KEPT` bytes."""

    @property
    def length(self) -> int: ...

    def peek(self, start: int, end: int) -> bytes:
        """These bytes. They and all before them, from the last part on, can be asked for again."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """These bytes, as a part: what is before their end is not asked for again."""
        ...


@dataclass(frozen=True, slots=True)
class StoredBuffer:
    """A buffer that is some bytes of the file."""

    file: pa.NativeFile
    offset: int
    length: int

    def peek(self, start: int, end: int) -> bytes:
        _check(start, end, self.length)
        data: bytes = self.file.read_at(end - start, self.offset + start)
        return _whole(data, end - start)

    read = peek


class InflatedBuffer:
    """A compressed buffer of `length` bytes once it is decoded."""

    def __init__(self, file: pa.NativeFile, offset: int, stored: int, length: int, codec: str) -> None:
        self.length = length
        self._source = file, offset, stored, codec
        self._stream: pa.CompressedInputStream | None = None
        self._held = b""
        self._at = 0
        """The position of the first byte of `_held`; the stream stands at its end."""

    def peek(self, start: int, end: int) -> bytes:
        _check(start, end, self.length)
        self._advance(start)
        behind = self._at + len(self._held)
        if end > behind:
            more = self._next(end - behind)
            self._held = self._held + more if self._held else more
        if start == self._at and end - start == len(self._held):
            return self._held
        return self._held[start - self._at : end - self._at]

    def read(self, start: int, end: int) -> bytes:
        data = self.peek(start, end)
        kept = max(end - _KEPT, self._at)
        self._held = self._held[kept - self._at :]
        self._at = kept
        return data

    def decoder_bytes(self) -> int:
        """The most bytes that the decoder takes."""
        file, offset, stored, codec = self._source
        if self.length <= _DECODER_BYTES:
            return self.length
        return min(self.length, _DECODER_BYTES + window_bytes(file, offset, stored, self.length, codec))

    def _advance(self, start: int) -> None:
        """Drop what is before `start`, without holding it, where all that is held is before it."""
        behind = self._at + len(self._held)
        if start < self._at:
            raise pa.ArrowInvalid("the offsets of a column decrease")
        while behind < start:
            behind += len(self._next(min(start - behind, _SKIPPED)))
            self._held, self._at = b"", behind

    def _next(self, size: int) -> bytes:
        if self._stream is None:
            file, offset, stored, codec = self._source
            self._stream = pa.CompressedInputStream(file.get_stream(offset, stored), codec)
        data: bytes = self._stream.read(size)
        return _whole(data, size)


def buffer_of(file: pa.NativeFile, offset: int, stored: int, codec: str | None) -> Buffer:
    """The buffer in these bytes of the file."""
    if codec is None or not stored:
        return StoredBuffer(file, offset, stored)
    length = decoded_length(file, offset, stored)
    if length == _AS_IT_IS:
        return StoredBuffer(file, offset + _PREFIX, stored - _PREFIX)
    return InflatedBuffer(file, offset + _PREFIX, stored - _PREFIX, length, codec)


def decoded_length(file: pa.NativeFile, offset: int, stored: int) -> int:
    """The length that a compressed buffer states; `_AS_IT_IS` where it is not compressed after all."""
    prefix = bytes(file.read_at(_PREFIX, offset)) if stored >= _PREFIX else b""
    length = int.from_bytes(prefix, "little", signed=True)
    if len(prefix) < _PREFIX or length < _AS_IT_IS:
        raise pa.ArrowInvalid("a compressed buffer does not state its length")
    return length


def _check(start: int, end: int, length: int) -> None:
    if not 0 <= start <= end <= length:
        raise pa.ArrowInvalid(f"bytes {start} to {end} of a buffer of {length} bytes")


def _whole(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise pa.ArrowInvalid("the file ends inside a buffer")
    return data

"""Just enough of protobuf's wire format to write and read messages whose bytes fields are too large to be copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

WIDEST: Final = 10
"""Bytes of the longest varint that readers take, whatever its value."""

_SHORT: Final = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int, width: int = 0) -> bytes:
    """A varint of at least `width` bytes: a varint may be longer than it need be."""
    if value < 0x80 and width <= 1:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F or len(out) + 1 < width:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, varint or bytes) of each field of a message. Raises `ValueError` for bytes that are no message.

    Fixed-width fields are passed over: no message of Tidegate has any.
    """
    position, end = 0, len(view)
    while position < end:
        tag, position = read_varint(view, position)
        match tag & 7:
            case 0:
                value, position = read_varint(view, position)
                yield tag >> 3, value
            case 2:
                length, position = read_varint(view, position)
                if position + length > end:
                    raise ValueError("a field ends beyond its message")
                yield tag >> 3, view[position : position + length]
                position += length
            case 1:
                position += 8
            case 5:
                position += 4
            case kind:
                raise ValueError(f"a field of the unknown kind {kind}")


def read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """The number at this position, and the position behind it. Raises `ValueError` where there is no varint."""
    if position < len(view) and (byte := view[position]) < 0x80:
        return byte, position + 1
    value = shift = 0
    while position < len(view) and shift < 7 * WIDEST:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a varint without an end")

"""Count the parts of an encoded message before it is decoded: a decoded message takes many times the memory of its
bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from google.protobuf.descriptor import Descriptor

from .wire_format import read_varint

_FIXED: Final = {1: 8, 5: 4}
_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2


def has_more_parts(data: bytes, descriptor: Descriptor, most: int) -> bool:
    """True where the message and the messages inside it have more than `most` fields and numbers. Raises `ValueError`
    for bytes that are no message.

    The count ends as soon as it exceeds `most`, so a larger message takes no longer.
    """
    parts = 0
    pending = [(memoryview(data), descriptor)]
    while pending:
        view, descriptor = pending.pop()
        inner = _inner(descriptor)
        position, end = 0, len(view)
        while position < end:
            parts += 1
            if parts > most:
                return True
            tag, position = read_varint(view, position)
            kind = tag & 7
            if kind == _VARINT:
                _, position = read_varint(view, position)
            elif kind == _LENGTH_DELIMITED:
                length, position = read_varint(view, position)
                if position + length > end:
                    raise ValueError("a field ends beyond its message")
                if (number := tag >> 3) in inner:
                    below = inner[number]
                    if below is None:
                        parts += length
                    else:
                        pending.append((view[position : position + length], below))
                position += length
            elif kind in _FIXED:
                position += _FIXED[kind]
            else:
                raise ValueError(f"a field of the unknown kind {kind}")
    return parts > most


@cache
def _inner(descriptor: Descriptor) -> Mapping[int, Descriptor | None]:
    """The messages that fields hold, by field number; None for a field of many numbers."""
    return {
        field.number: field.message_type
        for field in descriptor.fields
        if field.message_type is not None or field.is_packed
    }

"""Reads protobuf bytes into a table of messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from ....proto.encoding.wire_format import varint
from .field_shapes import Descend, Hoist, Retype, Rule, Shape, shapes
from .literal_runs import read_literals
from .message_classes import pool
from .message_nodes import Malformed, Message, Nodes

VARINT: Final = 0
LENGTH_DELIMITED: Final = 2
FIXED: Final = {1: 8, 5: 4}
"""Wire types whose values always have the same number of bytes."""


_LEAF_BYTES: Final = 24
_MOST_LEAVES: Final = 4096
_LEAVES: Final[dict[tuple[str, bytes], Message]] = {}
"""Messages of few bytes that hold no others, by name and content. Nothing changes a message."""


class WireMessage(NamedTuple):
    """A message that is not taken yet: its type, and the range of its bytes."""

    name: str
    data: bytes
    start: int
    end: int

    @property
    def content(self) -> bytes:
        return self.data[self.start : self.end]

    def read(self, put: Callable[[WireMessage], int]) -> Message:
        """The message. `put` puts the messages inside it into the table, and returns their numbers. Raises
        `Malformed`.
        """
        message_class, shape = _class_and_shape(self.name)
        message = message_class()
        try:
            message.ParseFromString(bytes(self._rewrite(self.start, self.end, shape, put)))
        except DecodeError as error:
            raise Malformed(f"not a valid {self.name}: {error}") from error
        return message

    def _rewrite(self, start: int, end: int, shape: Shape, put: Callable[[WireMessage], int]) -> bytearray:
        """The range's bytes with every recursive message replaced by its number in the table.

        Recurses into messages of constant depth only. Protobuf does not know a field whose wire type is wrong; such a
        field is left out if protobuf would take it for a number in the table.
        """
        data, rules = self.data, shape.by_number
        out = bytearray()
        position = copied = start
        while position < end:
            field_start = position
            tag = data[position]  # most tags are one byte: they are read without a call
            position += 1
            if not 8 <= tag < 0x80:
                tag, position = _tag(data, field_start, end)
            value_start = position
            wire_type = tag & 7
            if wire_type == LENGTH_DELIMITED:  # most lengths and numbers are one byte, too
                length, value_start = data[position] if position < end else 0x80, position + 1
                if length >= 0x80:
                    length, value_start = read_varint(data, position, end)
                position = value_start + length
            elif wire_type == VARINT:
                if position < end and data[position] < 0x80:
                    position += 1
                else:
                    _, position = read_varint(data, position, end)
            elif wire_type in FIXED:
                position += FIXED[wire_type]
            else:
                raise Malformed(f"not protobuf: wire type {wire_type} at byte {field_start}")
            if position > end:
                raise Malformed(f"not protobuf: the field at byte {field_start} is longer than its message")
            rule = rules.get(tag >> 3)
            if rule is not None and (wire_type == VARINT or type(rule) is not Retype):
                out += data[copied:field_start]
                copied = position
                self._put_ruled(out, rule, tag, value_start, position, put)
        out += data[copied:end]
        return out

    def _put_ruled(
        self, out: bytearray, rule: Rule, tag: int, start: int, end: int, put: Callable[[WireMessage], int]
    ) -> None:
        """Writes a field with a rule, whose value is at this range."""
        match rule:
            case Hoist() if tag & 7 == LENGTH_DELIMITED:
                number = put(WireMessage(rule.message, self.data, start, end))
                out += varint(tag & ~7 | VARINT) + varint(number)
            case Descend() if tag & 7 == LENGTH_DELIMITED:
                inner = self._rewrite(start, end, rule.shape, put)
                out += varint(tag) + varint(len(inner)) + inner
            case Retype():
                out += varint(rule.number << 3 | VARINT) + self.data[start:end]
            case _:
                pass


@functools.cache
def _class_and_shape(name: str) -> tuple[type[Any], Shape]:
    return pool().message_class(name), shapes()[name]


class WireNodes(Nodes):
    """The table of an encoded plan, or of a recursive message on its own."""

    def __init__(self, data: bytes, name: str = "substrait.Plan") -> None:
        super().__init__()
        self._table = [WireMessage(name, data, 0, len(data))]

    def content(self, number: int) -> bytes:
        return self._table[number].content

    def graft(self, name: str, data: bytes) -> int:
        return self._put(WireMessage(name, data, 0, len(data)))

    def _read(self, number: int) -> Message:
        """Plans repeat their leaves: types, columns and small literals. A leaf is read once for all plans."""
        part = self._table[number]
        if part.end - part.start > _LEAF_BYTES:
            return part.read(self._put)
        key = part.name, part.content
        known = _LEAVES.get(key)
        if known is None:
            before = len(self._table)
            known = part.read(self._put)
            if len(self._table) == before:
                if len(_LEAVES) >= _MOST_LEAVES:
                    _LEAVES.clear()
                _LEAVES[key] = known
        return known

    def _read_literals(self, numbers: Sequence[int]) -> Sequence[Message] | None:
        parts = [self._table[number] for number in numbers]
        return read_literals([data[start:end] for _, data, start, end in parts])

    def _put(self, message: WireMessage) -> int:
        self._table.append(message)
        return len(self._table) - 1


def _tag(data: bytes, position: int, end: int) -> tuple[int, int]:
    tag, after = read_varint(data, position, end)
    if tag < 8:
        raise Malformed(f"not protobuf: field number 0 at byte {position}")
    return tag, after


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at `position`, and the position of its end. Raises `Malformed`."""
    if position < end and data[position] < 0x80:  # most numbers are one byte
        return data[position], position + 1
    result = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise Malformed(f"not protobuf: a number is cut off or too long at byte {position}")

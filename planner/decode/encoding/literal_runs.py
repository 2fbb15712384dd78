"""Reads many literals of a binary plan at once.

A plan may hold tens of thousands of literals, in lists of IN and in tables of rows. Protobuf reads them all in one call
if none of them holds a message that goes to the table of messages.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import DecodeError

from .field_shapes import Descend, Hoist, shapes
from .message_classes import pool
from .message_nodes import Message

_LITERAL: Final = "substrait.Expression.Literal"
_PACKAGE: Final = "tidegate.literals"
_LITERAL_TAG: Final = 0x0A
"""The first byte of an expression that is a literal."""

_Field = descriptor_pb2.FieldDescriptorProto


@dataclass(frozen=True, slots=True, eq=False)
class _Classes:
    """Two classes of one encoding: expressions as bytes, and expressions that are literals.

    `inside` are the classes of what is in them. Nothing else keeps those: see `Pool`.
    """

    as_bytes: type[Any]
    as_literals: type[Any]
    inside: Sequence[type[Any]]


@functools.cache
def _classes() -> _Classes:
    literal = pool().descriptor(_LITERAL)
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append(literal.file.name)
    plain, expression, as_literals, as_bytes = (file.message_type.add() for _ in range(4))
    literal.CopyToProto(plain)
    rules = shapes()[_LITERAL].by_number
    tabled = [field for field in plain.field if isinstance(rules.get(field.number), Hoist | Descend)]
    for field in tabled:
        plain.field.remove(field)
    plain.ClearField("nested_type")
    plain.name, expression.name, as_literals.name, as_bytes.name = "Literal", "Expression", "Literals", "Contents"
    for message, name, type_ in ((expression, "literal", plain.name), (as_literals, "expressions", expression.name)):
        label = _Field.LABEL_OPTIONAL if message is expression else _Field.LABEL_REPEATED
        full = f".{_PACKAGE}.{type_}"
        message.field.add(name=name, number=1, label=label, type=_Field.TYPE_MESSAGE, type_name=full)
    as_bytes.field.add(name="expressions", number=1, label=_Field.LABEL_REPEATED, type=_Field.TYPE_BYTES)
    pool().descriptors.Add(file)
    first, second, *inside = (
        message_factory.GetMessageClass(pool().descriptor(f"{_PACKAGE}.{message.name}"))
        for message in (as_bytes, as_literals, plain, expression)
    )
    return _Classes(as_bytes=first, as_literals=second, inside=inside)


def read_literals(contents: Sequence[bytes]) -> Sequence[Message] | None:
    """The literals that these encoded expressions are; None if one of them is or holds anything else, or is not encoded
    as protobuf itself encodes it: what protobuf skips over could be what the table has to hold.
    """
    if not all(content and content[0] == _LITERAL_TAG for content in (contents[0], contents[-1])):
        return None
    data = _classes().as_bytes(expressions=contents).SerializeToString()
    run = _classes().as_literals()
    try:
        run.ParseFromString(data)
    except DecodeError:
        return None
    run.DiscardUnknownFields()
    if run.SerializeToString() != data:
        return None
    literals = [expression.literal for expression in run.expressions]
    return literals if all(literal.WhichOneof("literal_type") for literal in literals) else None

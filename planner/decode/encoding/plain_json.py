"""Fills messages from JSON objects of plain members, as protobuf's own reader does and several times as fast.

A plan has a message for each expression and each literal, and most of their members are plain: messages, lists, texts,
truths, whole numbers, names of enumerations. Protobuf's reader looks at each field of the schema for each message.
Members of other kinds (bytes, floats, nulls, other spellings of a number) are left to protobuf's reader, with its
errors.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from .json_text import Json
from .message_nodes import Message

_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_OF_PROTOBUF: Final = "google.protobuf."
"""The package of messages with a JSON form of their own."""


class NotPlainError(Exception):
    """A member that protobuf's reader has to read, or refuse."""


Scalar: TypeAlias = Callable[[Json], Any]
"""The value of a field for its JSON. Raises `NotPlainError`."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field. `choice` is its oneof, or itself: an object has one member of each choice. Without a `scalar` the field
    holds a message.
    """

    name: str
    choice: str
    repeated: bool
    scalar: Scalar | None


def fill_plain(message: Message, value: Mapping[str, Json]) -> bool:
    """Fill a new message; False if a member is not plain. The message may then be half filled."""
    try:
        _fill(message, value)
    except (NotPlainError, ValueError, TypeError):  # protobuf refuses numbers beyond the field's with these
        return False
    return True


def _fill(message: Message, value: Mapping[str, Json]) -> None:
    """Recurses as deep as the schema nests once its recursion is cut."""
    fields = _fields(message.DESCRIPTOR)
    chosen = set()
    for key, member in value.items():
        field = fields.get(key)
        if field is None or field.choice in chosen:
            raise NotPlainError
        chosen.add(field.choice)
        if field.repeated:
            _fill_list(getattr(message, field.name), field, member)
        elif field.scalar is not None:
            setattr(message, field.name, field.scalar(member))
        else:
            below = getattr(message, field.name)
            below.SetInParent()
            _fill(below, _object(member))


def _fill_list(target: Any, field: _Field, members: Json) -> None:
    if type(members) is not list:
        raise NotPlainError
    if field.scalar is not None:
        target.extend(map(field.scalar, members))
        return
    for member in members:
        _fill(target.add(), _object(member))


def _object(value: Json) -> Mapping[str, Json]:
    if type(value) is not dict:
        raise NotPlainError
    return value


@functools.cache
def _fields(descriptor: Descriptor) -> Mapping[str, _Field]:
    """The fields that may be plain, by both spellings of their names."""
    fields = {}
    for field in descriptor.fields:
        scalar = _scalar(field)
        if scalar is None and not _holds_message(field):
            continue
        choice = field.containing_oneof.full_name if field.containing_oneof is not None else field.full_name
        fields[field.name] = fields[field.json_name] = _Field(field.name, choice, field.is_repeated, scalar)
    return fields


def _holds_message(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and not kind.GetOptions().map_entry and not kind.full_name.startswith(_OF_PROTOBUF)


def _scalar(field: FieldDescriptor) -> Scalar | None:
    match field.cpp_type:
        case (
            FieldDescriptor.CPPTYPE_INT32
            | FieldDescriptor.CPPTYPE_INT64
            | FieldDescriptor.CPPTYPE_UINT32
            | FieldDescriptor.CPPTYPE_UINT64
        ):
            return _whole
        case FieldDescriptor.CPPTYPE_BOOL:
            return _truth
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_STRING:
            return _text
        case FieldDescriptor.CPPTYPE_ENUM if field.enum_type is not None:
            return functools.partial(
                _member, {name: value.number for name, value in field.enum_type.values_by_name.items()}
            )
        case _:
            return None


def _whole(value: Json) -> int:
    if type(value) is int:
        return value
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    raise NotPlainError


def _truth(value: Json) -> bool:
    if type(value) is not bool:
        raise NotPlainError
    return value


def _text(value: Json) -> str:
    if type(value) is not str:
        raise NotPlainError
    return value


def _member(numbers: Mapping[str, int], value: Json) -> int:
    if type(value) is not str or value not in numbers:
        raise NotPlainError
    return numbers[value]

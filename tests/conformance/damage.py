"""A plan with one of its fields damaged: left out, emptied, set to another value, doubled, cut, or swapped for a field
beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from ..planner.decode.plans import plan_class

_NUMBERS: Final = frozenset(
    {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_SINT64,
    }
)
_NO_SOURCE: Final = 2**32 - 1
"""What DataFusion writes in position of a reference to an extension."""

_FAR: Final = 1_000
"""A reference, an anchor, a field or a length beyond all that plans of these tests have."""


def damaged(plan: bytes, every: int = 1, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """The damaged plans, each with its place and what was done there; of `every` so many one, from `first` on."""
    whole = plan_class().FromString(plan)
    number = -first
    for position, message, field in _fields(whole, ""):
        for what, undo in _damages(message, field):
            if number >= 0 and number % every == 0:
                yield f"{position}: {what}", whole.SerializeToString()
            number += 1
            undo()


def _fields(message: Any, position: str) -> Iterator[tuple[str, Any, FieldDescriptor]]:
    """Every field that a message has, and every field of the messages inside."""
    for field, _ in message.ListFields():
        here = f"{position}.{field.name}".lstrip(".")
        yield here, message, field
        if field.message_type is not None:
            value = getattr(message, field.name)  # the one from before was replaced when a damage was undone
            for index, inner in enumerate(value if field.is_repeated else (value,)):
                yield from _fields(inner, f"{here}[{index}]" if field.is_repeated else here)


def _damages(message: Any, field: FieldDescriptor) -> Iterator[tuple[str, Any]]:
    """Damages the field where it is, each time from its state before. The caller undoes each damage."""
    name = field.name
    before = type(message)()
    before.CopyFrom(message)

    def undo() -> None:
        message.CopyFrom(before)

    message.ClearField(name)
    yield "left out", undo
    if field.is_repeated:
        values = list(getattr(before, name))
        for what, changed in (("doubled", [values[0], *values]), ("reversed", values[::-1]), ("cut", values[:-1])):
            if changed != values:
                message.ClearField(name)
                getattr(message, name).extend(changed)
                yield what, undo
    elif field.message_type is None:
        for value in _others(field, getattr(before, name)):
            setattr(message, name, value)
            yield f"{value!r}", undo
    else:
        getattr(message, name).Clear()
        getattr(message, name).SetInParent()
        yield "empty", undo
        for other in _alike(before, field):
            getattr(message, name).CopyFrom(getattr(before, other.name))
            getattr(message, other.name).CopyFrom(getattr(before, name))
            yield f"swapped for {other.name}", undo


def _alike(message: Any, field: FieldDescriptor) -> list[FieldDescriptor]:
    """The fields behind a field that hold one message of the same kind, such as the other input of a join."""
    return [
        other
        for other, _ in message.ListFields()
        if other.number > field.number and not other.is_repeated and other.message_type is field.message_type
    ]


def _others(field: FieldDescriptor, value: Any) -> list[Any]:
    """Other values of a field of one value."""
    if field.enum_type is not None:
        return [number for number in (*field.enum_type.values_by_number, 99) if number != value]
    if field.type in _NUMBERS:
        return [number for number in (0, value + 1, _FAR) if number not in (value, _NO_SOURCE + 1)]
    if field.type == FieldDescriptor.TYPE_BOOL:
        return [not value]
    if field.type == FieldDescriptor.TYPE_STRING:
        return [f"{value}x", ""]
    return []

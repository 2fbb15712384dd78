"""Just enough of Thrift's compact protocol to look into the metadata of Parquet files.

A shape says which fields of a struct are wanted. The reader steps over all other fields, and over wanted fields that
have another type, as generated readers do. Whatever the bytes are, their number bounds the work. Bytes that do not hold
together raise `Damaged`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias


class Damaged(ValueError):
    """Bytes that are not well-formed, or do not hold together."""


class Wanted(NamedTuple):
    """A wanted field: its type, the shape of its contents, and the function that takes a struct as soon as it is
    read.
    """

    kind: int
    of: Any = None
    make: Callable[[dict[int, Any]], Any] | None = None


Shape: TypeAlias = Mapping[int, Wanted]
Struct: TypeAlias = dict[int, Any]

_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
_I16: Final = 4
_I64: Final = 6
_DOUBLE: Final = 7
_BINARY: Final = 8
_LIST: Final = 9
_SET: Final = 10
_MAP: Final = 11
_STRUCT: Final = 12
_UUID: Final = 13
_INTEGERS: Final = (_I16, 5, _I64)
#: The field types of which all values are read alike.
_SAME: Final = {_TRUE: _TRUE, _FALSE: _TRUE, **dict.fromkeys(_INTEGERS, _I64)} | {
    kind: kind for kind in (_BINARY, _LIST, _STRUCT)
}
_FIXED: Final = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}
_DEEPEST: Final = 32
_LONGEST: Final = 63
_MANY: Final = 15

BOOLEAN: Final = Wanted(_TRUE)
INTEGER: Final = Wanted(_I64)
BINARY: Final = Wanted(_BINARY)
#: The shape of a list of which only the number of values is wanted.
LENGTH: Final = Wanted(_LIST)


def list_of(element: Wanted) -> Wanted:
    return Wanted(_LIST, element)


def struct_of(shape: Shape, make: Callable[[Struct], Any] | None = None) -> Wanted:
    return Wanted(_STRUCT, shape, make)


def read(data: bytes, at: int, shape: Shape) -> tuple[Struct, int]:
    """The wanted fields of the struct at `at`, by their numbers, and the position of the struct's end."""
    try:
        return _struct(data, at, shape, 0)
    except IndexError as error:
        raise Damaged("its metadata ends in the middle of a value") from error


def _struct(data: bytes, at: int, shape: Shape, depth: int) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise Damaged("its metadata is nested too deeply")
    fields: Struct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        kind = head & 0x0F
        if not kind:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        wanted = shape.get(number)
        if wanted is None or _SAME.get(kind) != wanted.kind:
            at = _after(data, at, kind, depth)
        elif wanted.kind == _I64:
            fields[number], at = _integer(data, at)
        elif wanted.kind == _TRUE:
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, wanted, depth)


def _value(data: bytes, at: int, wanted: Wanted, depth: int) -> tuple[Any, int]:
    """A value, except for a boolean in a field (its value is in the field's type)."""
    if wanted.kind == _I64:
        return _integer(data, at)
    if wanted.kind == _BINARY:
        size, at = _size(data, at)
        return data[at : at + size], at + size
    if wanted.kind == _STRUCT:
        decoded, at = _struct(data, at, wanted.of, depth + 1)
        return decoded if wanted.make is None else wanted.make(decoded), at
    kind, size, at = _list_head(data, at)
    if wanted.of is None:
        return size, _after_all(data, at, (kind,), size, depth)
    if size and _SAME.get(kind) != wanted.of.kind:
        raise Damaged("a list in its metadata has values of another type")
    values = []
    for _ in range(size):
        value, at = _value(data, at, wanted.of, depth + 1)
        values.append(value)
    return values, at


def _after(data: bytes, at: int, kind: int, depth: int) -> int:
    """The position behind the value of a field."""
    if kind in (_TRUE, _FALSE):
        return at
    if kind in _INTEGERS:
        while data[at] & 0x80:
            at += 1
        return at + 1
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind == _BINARY:
        size, at = _size(data, at)
        return at + size
    if kind == _STRUCT:
        return _struct(data, at, {}, depth + 1)[1]
    if depth > _DEEPEST:
        raise Damaged("its metadata is nested too deeply")
    if kind in (_LIST, _SET):
        inner, size, at = _list_head(data, at)
        return _after_all(data, at, (inner,), size, depth)
    if kind == _MAP:
        size, at = _size(data, at)
        if not size:
            return at
        return _after_all(data, at + 1, (data[at] >> 4, data[at] & 0x0F), size, depth)
    raise Damaged(f"its metadata has a value of the unknown type {kind}")


def _after_all(data: bytes, at: int, kinds: tuple[int, ...], size: int, depth: int) -> int:
    """The position behind `size` values (of a map: pairs). A boolean has a byte of its own here."""
    for _ in range(size):
        for kind in kinds:
            at = at + 1 if kind in (_TRUE, _FALSE) else _after(data, at, kind, depth + 1)
    return at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """The type of a list's values, their number, and the position of the first one."""
    head = data[at]
    if head >> 4 != _MANY:
        return head & 0x0F, head >> 4, at + 1
    size, at = _size(data, at + 1)
    return head & 0x0F, size, at


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A number of items that take at least a byte each, and the position behind it."""
    size, at = varint(data, at)
    if size > len(data) - at:
        raise Damaged("its metadata ends in the middle of a value")
    return size, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    number = data[at]
    at += 1
    if number & 0x80:
        number, at = varint(data, at - 1)
    return (number >> 1) ^ -(number & 1), at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position behind it. Raises `IndexError` where the data ends in it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
        shift += 7
        if shift > _LONGEST:
            raise Damaged("a number in its metadata is too long")

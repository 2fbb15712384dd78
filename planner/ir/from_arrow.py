"""Substrait types from Arrow types: the inverse of `arrow_types.arrow_type`, and no wider."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from . import types as t
from .arrow_types import arrow_type
from .types import Type

_PLAIN: Final[tuple[tuple[pa.DataType, Type], ...]] = (
    (pa.bool_(), t.Boolean()),
    *((pa.type_for_alias(f"int{bits}"), t.Integer(bits=bits)) for bits in (8, 16, 32, 64)),
    *((pa.type_for_alias(f"uint{bits}"), t.Integer(bits=bits, signed=False)) for bits in (8, 16, 32, 64)),
    (pa.float32(), t.Float(bits=32)),
    (pa.float64(), t.Float(bits=64)),
    (pa.string(), t.String()),
    (pa.binary(), t.Binary()),
    (pa.date32(), t.Date()),
    (pa.uuid(), t.Uuid()),
)
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DEEPEST: Final = 64


def type_of(field: pa.Field) -> Type | None:
    """The Substrait type of a column's values; None if no Substrait type comes back as the same Arrow type."""
    type_ = _type(field.type, field.nullable, 0)
    return type_ if type_ is not None and arrow_type(type_).equals(field.type) else None


def _type(type_: pa.DataType, nullable: bool, depth: int) -> Type | None:
    if depth > _DEEPEST:
        return None
    plain = next((own for arrow, own in _PLAIN if arrow.equals(type_)), None)
    if plain is not None:
        return replace(plain, nullable=nullable)
    if kinds.is_fixed_size_binary(type_):
        return t.FixedBinary(length=type_.byte_width, nullable=nullable)
    if kinds.is_decimal128(type_) and 0 <= type_.scale <= type_.precision:
        return t.Decimal(precision=type_.precision, scale=type_.scale, nullable=nullable)
    if kinds.is_time(type_):
        return t.Time(precision=_DIGITS[type_.unit], nullable=nullable)
    if kinds.is_timestamp(type_):
        kind = t.Timestamp if type_.tz is None else t.TimestampTz
        return kind(precision=_DIGITS[type_.unit], nullable=nullable)
    return _nested(type_, nullable, depth + 1)


def _nested(type_: pa.DataType, nullable: bool, depth: int) -> Type | None:
    if kinds.is_list(type_):
        element = _type(type_.value_type, type_.value_field.nullable, depth)
        return None if element is None else t.List(element=element, nullable=nullable)
    if kinds.is_map(type_):
        key = _type(type_.key_type, False, depth)
        value = _type(type_.item_type, type_.item_field.nullable, depth)
        return None if key is None or value is None else t.Map(key=key, value=value, nullable=nullable)
    if kinds.is_struct(type_):
        fields = [_type(field.type, field.nullable, depth) for field in type_]
        known = tuple(field for field in fields if field is not None)
        return t.Struct(fields=known, nullable=nullable) if known and len(known) == len(fields) else None
    return None

"""Tests on types, and on keys of maps, that relations and expressions share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from ..ir import types as t
from ..ir.types import Type
from .poison import is_unknown

_FAMILIES: Final[dict[type, str]] = {
    t.Boolean: "number",
    t.Integer: "number",
    t.Float: "number",
    t.Decimal: "number",
    t.String: "text",
    t.VarChar: "text",
    t.FixedChar: "text",
    t.Binary: "binary",
    t.FixedBinary: "binary",
    t.Date: "instant",
    t.Timestamp: "instant",
    t.TimestampTz: "instant",
    t.Time: "time",
    t.IntervalYear: "interval",
    t.IntervalDay: "interval",
    t.IntervalCompound: "interval",
    t.Uuid: "uuid",
}

_DAYS_OF_MONTH: Final = 30
_SECONDS_OF_DAY: Final = 86_400


def same_type(left: Type, right: Type) -> bool:
    """Tests whether types are equal but for nullability and field names, at every level. Poison equals any type."""
    if left is right or is_unknown(left) or is_unknown(right):
        return True
    match left, right:
        case t.Struct(fields=these), t.Struct(fields=those):
            return len(these) == len(those) and all(map(same_type, these, those))
        case t.List(element=this), t.List(element=that):
            return same_type(this, that)
        case t.Map(key=key, value=value), t.Map(key=other_key, value=other_value):
            return same_type(key, other_key) and same_type(value, other_value)
        case _:
            return t.nullable(left) == t.nullable(right)


def either_nullable(left: Type, right: Type) -> Type:
    """`left`, nullable where `right` is nullable, at every level. Both are the same type."""
    if left is right:
        return left
    nullable = left.nullable or right.nullable
    match left, right:
        case t.Struct(fields=these, names=names), t.Struct(fields=those, names=other_names):
            fields = tuple(map(either_nullable, these, those))
            return t.Struct(fields=fields, names=names or other_names, nullable=nullable)
        case t.List(element=this), t.List(element=that):
            return t.List(element=either_nullable(this, that), nullable=nullable)
        case t.Map(key=key, value=value), t.Map(key=other_key, value=other_value):
            return t.Map(
                key=either_nullable(key, other_key), value=either_nullable(value, other_value), nullable=nullable
            )
        case _:
            return t.nullable(left) if nullable else left


def castable(source: Type, target: Type) -> bool:
    """Tests whether a cast from `source` to `target` means anything."""
    if is_unknown(source) or is_unknown(target):
        return True
    match source, target:
        case t.Struct(fields=these), t.Struct(fields=those):
            return len(these) == len(those) and all(map(_castable_inside, these, those))
        case t.List(element=this), t.List(element=that):
            return _castable_inside(this, that)
        case t.Map(key=key, value=value), t.Map(key=other_key, value=other_value):
            return _castable_inside(key, other_key) and _castable_inside(value, other_value)
        case ((t.Timestamp() | t.TimestampTz()), t.Time()):
            return True
        case ((t.IntervalYear() | t.IntervalDay() | t.IntervalCompound()), (t.IntervalYear() | t.IntervalDay())):
            return type(source) is type(target)  # a month has no number of days
    families = _FAMILIES.get(type(source)), _FAMILIES.get(type(target))
    if None in families:
        return False
    return families[0] == families[1] or "text" in families


def _castable_inside(source: Type, target: Type) -> bool:
    """The same of values inside others, which are cast as they are: some casts of moments take several steps."""
    if isinstance(source, t.Timestamp | t.TimestampTz) and isinstance(target, t.Time | t.Timestamp):
        return t.nullable(source) == t.nullable(target)
    return castable(source, target)


def comparable(left: Type, right: Type) -> bool:
    """Tests whether values of the two types can be equal."""
    families = _FAMILIES.get(type(left)), _FAMILIES.get(type(right))
    if is_unknown(left) or is_unknown(right) or None in families:
        return same_type(left, right)
    return families[0] == families[1]


def wrong_key(keys: Iterable[tuple[int, object]], type_: Type) -> tuple[int, str] | None:
    """The number of the first key that cannot be, and what is wrong with it. Each key comes with its number."""
    seen: dict[object, int] = {}
    for number, key in keys:
        if key is None:
            return number, "a key of a map must not be null"
        if seen.setdefault(_compared(key, type_), number) != number:
            return number, "a map must not have a key twice"
    return None


def _compared(value: Any, type_: Type) -> object:
    """The value in the form in which values that SQL takes as equal are equal in Python. Recurses as deep as the type,
    which has a limit.
    """
    match type_:
        case _ if value is None:
            return None
        case t.Float() if math.isnan(value):
            return "NaN"  # a NaN of Python does not equal itself
        case t.IntervalYear() | t.IntervalDay() | t.IntervalCompound():
            months, days, ticks = value
            of_day = _SECONDS_OF_DAY * 10 ** (0 if isinstance(type_, t.IntervalYear) else type_.precision)
            return (months * _DAYS_OF_MONTH + days) * of_day + ticks
        case t.Struct(fields=fields):
            return tuple(map(_compared, value, fields))
        case t.List(element=element):
            return tuple(_compared(item, element) for item in value)
        case t.Map(key=key, value=item):
            return tuple((_compared(k, key), _compared(v, item)) for k, v in value)
        case _:
            return value

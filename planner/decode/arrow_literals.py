"""A value in Arrow as the planner's literal of a type: the same value, or `NoSuchValue`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from ...operators.arrays.casts import LossyCast, cast, castable, plain
from ..ir import types as t
from ..ir.arrow_types import arrow_type, instants, parts_of_tick
from ..ir.types import Type, required
from .comparing import wrong_key

_LONGEST_TYPE: Final = 200
_NANOS_DIGITS: Final = 9


class NoSuchValue(Exception):
    """The value is none of the type; the message says what it is."""


def literal_value(array: pa.Array, type_: Type) -> object:
    """The one value of an array, as `ir.Literal` has it. Raises `NoSuchValue`.

    A value is converted where it stays the same value. A decimal also becomes the nearest float, as in SQL.
    """
    return _values(array, type_)[0]


def literals_in(array: pa.Array) -> int:
    """The number of values in an array, those inside of values too. Recurses as deep as the array's type, which has a
    limit. It looks at no value: an array of nulls may have 2**31 of them in a few bytes.
    """
    type_ = array.type
    inside: Sequence[pa.Array] = ()
    if kinds.is_map(type_):
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        inside = [part.slice(first, end - first) for part in (array.keys, array.items)]
    elif kinds.is_struct(type_):
        inside = array.flatten()
    elif kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        inside = [array.flatten()]
    return len(array) + sum(map(literals_in, inside))


def _values(array: pa.Array, type_: Type) -> list[object]:
    """All values of an array. Recurses as deep as the declared type, which has a limit."""
    if array.null_count and not type_.nullable:
        raise NoSuchValue("its value is null" if len(array) == 1 else f"there is a null in its value, {type_}")
    valid = array.drop_null()
    match type_:
        case _ if not len(valid):
            there: list[object] = []
        case t.Struct(fields=fields):
            there = _structs(valid, fields)
        case t.List(element=element):
            _expect(kinds.is_list(plain(valid.type)) or kinds.is_fixed_size_list(valid.type), valid)
            there = [tuple(_values(item.values, element)) for item in valid]
        case t.Map(key=key, value=value):
            _expect(kinds.is_map(valid.type), valid)
            there = [_pairs(item.values, key, value) for item in valid]
        case _:
            there = _scalars(valid, type_)
    if len(there) == len(array):
        return there
    left = iter(there)
    return [next(left) if value.is_valid else None for value in array]


def _structs(array: pa.Array, fields: tuple[Type, ...]) -> list[object]:
    """A struct's fields go by their positions: the types of a plan need not have names."""
    _expect(kinds.is_struct(array.type) and array.type.num_fields == len(fields), array)
    if not fields:
        return [()] * len(array)
    return list(zip(*map(_values, array.flatten(), fields), strict=True))


def _pairs(entries: pa.Array, key: Type, value: Type) -> tuple[object, ...]:
    keys, values = entries.flatten()
    there = _values(keys, key)
    wrong = wrong_key(enumerate(there), key)
    if wrong is not None:
        raise NoSuchValue(wrong[1])
    return tuple(zip(there, _values(values, value), strict=True))


def _expect(fits: bool, array: pa.Array) -> None:
    if not fits:
        raise NoSuchValue(f"its value is {shown(array.type)}")


def shown(type_: pa.DataType) -> str:
    """A type for a sentence: its beginning where it is long."""
    text = str(type_)
    return text if len(text) <= _LONGEST_TYPE else f"{text[:_LONGEST_TYPE]}..."


def _scalars(array: pa.Array, type_: Type) -> list[object]:
    if isinstance(type_, t.IntervalYear | t.IntervalDay | t.IntervalCompound):
        return [_interval(value, type_) for value in _cast(array, pa.month_day_nano_interval()).to_pylist()]
    values = _cast(array, arrow_type(required(type_)))
    convert = _CONVERTERS.get(type(type_))
    return values.to_pylist() if convert is None else [convert(value, type_) for value in values]


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if kinds.is_decimal(array.type) and kinds.is_floating(target):
        return array.cast(target)
    _expect(castable(array.type, target), array)
    try:
        return cast(array, target)
    except LossyCast as error:
        raise NoSuchValue(str(error)) from error


def _instant(value: pa.Scalar, type_: t.Time | t.Timestamp | t.TimestampTz) -> int:
    units, rest = divmod(value.value, parts_of_tick(type_))
    if rest:
        raise NoSuchValue(f"{value} has more places than its type, {type_}")
    if units not in instants(type_):
        raise NoSuchValue(f"{units} is beyond the range of {type_}")
    return int(units)


def _interval(value: Any, type_: t.IntervalYear | t.IntervalDay | t.IntervalCompound) -> tuple[int, int, int]:
    precision = 0 if isinstance(type_, t.IntervalYear) else type_.precision
    subseconds, rest = divmod(value.nanoseconds, 10 ** (_NANOS_DIGITS - precision))
    surplus = (value.days or value.nanoseconds) if isinstance(type_, t.IntervalYear) else rest
    if surplus or (value.months and isinstance(type_, t.IntervalDay)):
        raise NoSuchValue(f"{value} is not a value of type {type_}")
    return value.months, value.days, subseconds


def _text(value: pa.Scalar, type_: t.VarChar | t.FixedChar) -> str:
    text = str(value.as_py())
    if len(text) > type_.length or (len(text) < type_.length and isinstance(type_, t.FixedChar)):
        raise NoSuchValue(f"a text of {len(text)} characters is not a {type_}")
    return text


_CONVERTERS: Final[Mapping[type, Callable[[pa.Scalar, Any], object]]] = {
    t.Date: lambda value, _: value.value,
    t.Time: _instant,
    t.Timestamp: _instant,
    t.TimestampTz: _instant,
    t.VarChar: _text,
    t.FixedChar: _text,
    t.Uuid: lambda value, _: value.value.as_py(),
}
"""For types of which a literal has another value than `to_pylist` gives."""

"""Lossless casts between Arrow types: from the types of a file or of DuckDB to the types that the plan asks for.

A cast is allowed where a value can keep its meaning. Each value is then checked, and a value that does not fit raises
an error that names it. So int64 -> int32 works for values that fit, float64 -> float32 for values that survive the way
back, decimals as long as no digit is lost, timestamps as long as no part is below the unit. Text is never parsed here,
and dates, instants and local times never turn into each other.

Dictionary, run-end encoded, large and view types are ways to store a type, not types of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.arrow.nested_types import with_types
from ...proto.arrow.shown_values import shown
from ...proto.arrow.unpack import packed, unpack, without_views
from .retype import NullInside, nullable, requires, retype, same_layout


class LossyCast(Exception):
    """The value at `row` of the array does not fit."""

    def __init__(self, row: int, value: pa.Scalar, target: pa.DataType) -> None:
        super().__init__(f"{_shown(value)} is not a value of type {target}")
        self.row = row


def plain(type_: pa.DataType) -> pa.DataType:
    """`type_` without the choices of storage: no dictionary, run ends, extension, large or view at its top."""
    while True:
        if isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        elif kinds.is_dictionary(type_) or kinds.is_run_end_encoded(type_):
            type_ = type_.value_type
        elif kinds.is_large_string(type_) or kinds.is_string_view(type_):
            return pa.string()
        elif kinds.is_large_binary(type_) or kinds.is_binary_view(type_):
            return pa.binary()
        elif kinds.is_large_list(type_) or kinds.is_list_view(type_) or kinds.is_large_list_view(type_):
            return pa.list_(type_.value_field)
        else:
            return type_


def stored(type_: pa.DataType) -> pa.DataType:
    """`type_` without views of texts and run ends, at any depth: Arrow cannot pick rows out of arrays of these."""
    if kinds.is_run_end_encoded(type_):
        return stored(type_.value_type)
    return with_types(without_views(type_), stored)


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(kinds.is_binary(type_) or kinds.is_fixed_size_binary(type_))


def _is_number(type_: pa.DataType) -> bool:
    return bool(kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_))


def _numbers(source: pa.DataType, target: pa.DataType) -> bool:
    return not (kinds.is_decimal(source) and kinds.is_floating(target)) and not (
        kinds.is_floating(source) and kinds.is_decimal(target)
    )


def _timestamps(source: pa.DataType, target: pa.DataType) -> bool:
    return (source.tz is None) == (target.tz is None)


def _lists(source: pa.DataType, target: pa.DataType) -> bool:
    sizes = {type_.list_size for type_ in (source, target) if kinds.is_fixed_size_list(type_)}
    return len(sizes) <= 1 and _nested(source.value_type, target.value_type)


def _structs(source: pa.DataType, target: pa.DataType) -> bool:
    names = {field.name for field in source}
    if len(names) < source.num_fields:
        return False
    fits = all(_nested(source.field(f.name).type, f.type) for f in target if f.name in names)
    return fits and all(f.nullable or f.name in names for f in target)


def _maps(source: pa.DataType, target: pa.DataType) -> bool:
    return _nested(source.key_type, target.key_type) and _nested(source.item_type, target.item_type)


def _nested(source: pa.DataType, target: pa.DataType) -> bool:
    """True where values inside a nested value may be cast: only by casts that pyarrow checks itself."""
    narrows = kinds.is_floating(source) and kinds.is_floating(target) and source.bit_width > target.bit_width
    return castable(source, target) and not narrows


def _always(source: pa.DataType, target: pa.DataType) -> bool:  # noqa: ARG001 - one of the rules below
    return True


def _is_list(type_: pa.DataType) -> bool:
    return bool(kinds.is_list(type_) or kinds.is_fixed_size_list(type_))


_Kind = Callable[[pa.DataType], bool]
_RULES: Final[tuple[tuple[_Kind, _Kind, Callable[[pa.DataType, pa.DataType], bool]], ...]] = (
    (_is_number, _is_number, _numbers),
    (kinds.is_timestamp, kinds.is_timestamp, _timestamps),
    (kinds.is_date, kinds.is_date, _always),
    (kinds.is_time, kinds.is_time, _always),
    (kinds.is_duration, kinds.is_duration, _always),
    (_is_bytes, _is_bytes, _always),
    (kinds.is_binary, kinds.is_string, _always),
    (_is_list, _is_list, _lists),
    (kinds.is_struct, kinds.is_struct, _structs),
    (kinds.is_map, kinds.is_map, _maps),
)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """True where values of `source` may be cast to `target`, with a check of each value."""
    source, target = plain(source), plain(target)
    if source.equals(target) or kinds.is_null(source):
        return True
    return any(left(source) and right(target) and rule(source, target) for left, right, rule in _RULES)


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` as `target`, or `LossyCast`. The types must be `castable`."""
    if array.type.equals(target) and not requires(target):
        return array
    array = _decoded(array)
    if array.type.equals(target) and not requires(target):
        return array
    if kinds.is_floating(array.type) and kinds.is_floating(target) and array.type.bit_width > target.bit_width:
        return _narrowed(array, target)
    try:
        return _checked(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_failing(array, target)
        raise LossyCast(row, array[row], target) from error


def _decoded(array: pa.Array) -> pa.Array:
    """`array` without extension at its top, and without dictionaries, run ends and views at any depth."""
    while isinstance(array, pa.ExtensionArray) or packed(array.type):
        array = array.storage if isinstance(array, pa.ExtensionArray) else unpack(array)
    return array


def _checked(array: pa.Array, target: pa.DataType) -> pa.Array:
    if kinds.is_integer(array.type) and kinds.is_decimal(target):
        # Arrow wants room for every int64; here each value needs to fit on its own.
        array = array.cast(pa.decimal128(20, 0))
    if not kinds.is_nested(target):
        return array.cast(target, safe=True)
    if not same_layout(array.type, target):
        array = array.cast(nullable(target), safe=True)
    try:
        return retype(array, target)
    except NullInside as error:
        raise LossyCast(error.row, array[error.row], target) from error


def _narrowed(array: pa.Array, target: pa.DataType) -> pa.Array:
    narrow = array.cast(target, safe=False)
    back = narrow.cast(array.type)
    same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(array), pc.is_nan(back)))
    row = pc.index(pc.fill_null(same, True), pa.scalar(False)).as_py()
    if row >= 0:
        raise LossyCast(row, array[row], target)
    return narrow


def _first_failing(array: pa.Array, target: pa.DataType) -> int:
    """The first row whose value does not fit, found by halving: the cast of a value does not depend on its
    neighbours.
    """
    start, end = 0, len(array)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            _checked(array.slice(start, middle - start), target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            end = middle
        else:
            start = middle
    return start


def _shown(value: pa.Scalar) -> str:
    # Python has no nanoseconds, and shows a decimal with its type.
    as_text = kinds.is_timestamp(value.type) or kinds.is_time(value.type) or kinds.is_decimal(value.type)
    text = _written(value) if as_text else shown(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _written(value: pa.Scalar) -> str:
    try:
        text: str = value.cast(pa.string()).as_py()
    except pa.ArrowInvalid:  # no such time zone
        text = value.cast(pa.timestamp(value.type.unit)).cast(pa.string()).as_py()
    return text

"""Gives a nested array another type of the same layout: other names of items or fields, other nullability.

Values are not copied. A required field may be null only below a null; then its validity is dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.arrow.nested_types import with_fields, with_types


class NullInside(Exception):
    """A required field is null in row `row`."""

    def __init__(self, row: int) -> None:
        super().__init__(f"a required value inside the column is null in row {row}")
        self.row = row


def same_layout(left: pa.DataType, right: pa.DataType) -> bool:
    """True where nested types differ in names of items and in nullability alone."""
    if left.equals(right):
        return True
    if left.id != right.id or not kinds.is_nested(left) or left.num_fields != right.num_fields:
        return False
    if kinds.is_fixed_size_list(left) and left.list_size != right.list_size:
        return False
    if kinds.is_struct(left) and [field.name for field in left] != [field.name for field in right]:
        return False
    return all(same_layout(left.field(i).type, right.field(i).type) for i in range(left.num_fields))


def nullable(type_: pa.DataType) -> pa.DataType:
    """`type_` with every field inside it nullable, except for the keys of maps."""
    if kinds.is_map(type_):
        return pa.map_(type_.key_field, _nullable_field(type_.item_field), type_.keys_sorted)
    return with_fields(type_, _nullable_field)


def _nullable_field(field: pa.Field) -> pa.Field:
    return field.with_type(nullable(field.type)).with_nullable(True)


def unnamed(type_: pa.DataType) -> pa.DataType:
    """`type_` with the fields of structs called f1, f2, ... Recursive on the nesting of a type, which is bounded."""
    if kinds.is_struct(type_):
        return pa.struct(
            [field.with_name(f"f{at}").with_type(unnamed(field.type)) for at, field in enumerate(type_, 1)]
        )
    return with_types(type_, unnamed)


def requires(type_: pa.DataType) -> bool:
    """True where a field inside values of a type is required, apart from the keys of maps."""
    if not type_.num_fields:
        return False
    if kinds.is_struct(type_):
        return any(not field.nullable or requires(field.type) for field in type_)
    if kinds.is_map(type_):
        return not type_.item_field.nullable or requires(type_.item_type) or requires(type_.key_type)
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        return not type_.value_field.nullable or requires(type_.value_type)
    return False


def retype(array: pa.Array, target: pa.DataType) -> pa.Array:
    """`array` as `target`, which has the same layout. The type may be the array's own. Nulls of required fields are
    dropped where they lie below a null. Raises `NullInside` for any other null of a required field.
    """
    if array.type.equals(target) and not requires(target):
        return array
    if kinds.is_struct(target):
        return _struct(array, target)
    if kinds.is_map(target):
        lists = retype(_as_lists(array), _as_list(target))
        return _over(lists, target, [lists.values])
    _refuse_null_items(array, target.value_field)
    if requires(target.value_type):
        array = _without_hidden(array)
    try:
        items = retype(array.values, target.value_type)
    except NullInside as error:
        raise NullInside(int(_lists_of(array, np.array([error.row]))[0])) from error
    return _over(array, target, [_required(items, target.value_field)])


def _struct(array: pa.StructArray, target: pa.DataType) -> pa.Array:
    children = []
    for i, field in enumerate(target):
        child = retype(array.field(i), field.type)
        if not field.nullable and child.null_count:
            bare = np.flatnonzero(_nulls(child) & ~_nulls(array))
            if bare.size:
                raise NullInside(int(bare[0]))
        children.append(_required(child, field))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null() if array.null_count else None)


def _without_hidden(array: pa.Array) -> pa.Array:
    """A list array without the items that no list contains, such as those below a null."""
    if kinds.is_fixed_size_list(array.type) or len(items := array.flatten()) == len(array.values):
        return array
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths.to_numpy()))), lengths.type)
    return type(array).from_arrays(offsets, items, type=array.type, mask=array.is_null() if array.null_count else None)


def _lists_of(array: pa.Array, items: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Any:
    """The rows of the lists that contain these items of the array's values, where any does."""
    if kinds.is_fixed_size_list(array.type):
        return items // array.type.list_size - array.offset
    return np.searchsorted(array.offsets.to_numpy(), items, side="right") - 1


def _as_list(type_: pa.MapType) -> pa.ListType:
    """The type of lists of a map's entries."""
    return pa.list_(pa.field("entries", pa.struct([type_.key_field, type_.item_field]), nullable=False))


def _as_lists(array: pa.MapArray) -> pa.ListArray:
    return _over(array, _as_list(array.type), [_entries(array)])


def _entries(array: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])


def _refuse_null_items(array: pa.Array, field: pa.Field) -> None:
    """Raise `NullInside` where an item of a list is null. Items that no list contains do not count."""
    if field.nullable or not array.values.null_count:
        return
    rows = _lists_of(array, np.flatnonzero(_nulls(array.values)))
    rows = rows[(rows >= 0) & (rows < len(array))]
    bare = rows[~_nulls(array)[rows]]
    if bare.size:
        raise NullInside(int(bare[0]))


def _required(array: pa.Array, field: pa.Field) -> pa.Array:
    """The array without validity where the field is required."""
    if field.nullable or not array.null_count:
        return array
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, _required(array.storage, field))
    if kinds.is_struct(array.type):
        children = [array.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if kinds.is_map(array.type):
        return _over(array, array.type, [_entries(array)], valid=True)
    return _over(array, array.type, [array.values] if kinds.is_nested(array.type) else None, valid=True)


def _over(array: pa.Array, type_: pa.DataType, children: list[pa.Array] | None, *, valid: bool = False) -> pa.Array:
    """An array of `array`'s buffers over other children; without validity where all values are `valid`."""
    own = array.buffers()[: 1 if kinds.is_fixed_size_list(type_) else 2 if children is not None else None]
    if valid:
        own = [None, *own[1:]]
    nulls = 0 if valid else array.null_count
    return pa.Array.from_buffers(type_, len(array), own, nulls, array.offset, children)


def _nulls(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    nulls: np.ndarray[tuple[int], np.dtype[np.bool_]] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls

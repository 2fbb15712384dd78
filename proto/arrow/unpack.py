"""Replaces dictionaries, run ends and views in arrays by plain values, at any depth.

pyarrow cannot cast all of these types, and casts list views to arrays that are not valid.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from .nested_types import with_types

CODES: Final = frozenset({pa.lib.Type_DICTIONARY, pa.lib.Type_RUN_END_ENCODED})
TEXT_VIEWS: Final = frozenset({pa.lib.Type_STRING_VIEW, pa.lib.Type_BINARY_VIEW})
LIST_VIEWS: Final = frozenset({pa.lib.Type_LIST_VIEW, pa.lib.Type_LARGE_LIST_VIEW})
_PACKED: Final = CODES | TEXT_VIEWS | LIST_VIEWS


def packed(type_: pa.DataType) -> bool:
    """True where the type, or a type inside it, is stored as dictionary, run ends or view."""
    if type_.id in _PACKED:
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return packed(type_.storage_type)
    count = type_.num_fields
    return count > 0 and any(packed(type_.field(i).type) for i in range(count))


def without_views(type_: pa.DataType) -> pa.DataType:
    """The type of lists in place of list views, and of plain texts and bytes in place of views of them."""
    match type_.id:
        case pa.lib.Type_STRING_VIEW:
            return pa.string()
        case pa.lib.Type_BINARY_VIEW:
            return pa.binary()
        case pa.lib.Type_LIST_VIEW:
            return pa.list_(type_.value_field)
        case pa.lib.Type_LARGE_LIST_VIEW:
            return pa.large_list(type_.value_field)
    return type_


def unpacked_type(type_: pa.DataType) -> pa.DataType:
    """The type of `unpack(array)` for arrays of `type_`."""
    if not packed(type_):
        return type_
    if isinstance(type_, pa.BaseExtensionType):
        return unpacked_type(type_.storage_type)
    if type_.id in CODES:
        return unpacked_type(type_.value_type)
    return with_types(without_views(type_), unpacked_type)


def unpack(array: pa.Array) -> pa.Array:
    """`array` as `unpacked_type` of its type; itself where nothing is packed."""
    type_ = unpacked_type(array.type)
    if type_ is array.type:
        return array
    if isinstance(array, pa.ExtensionArray):
        return unpack(array.storage)
    if kinds.is_dictionary(array.type):
        return unpack(array.dictionary.take(array.indices))
    if kinds.is_run_end_encoded(array.type):
        return unpack(pc.run_end_decode(array))
    if array.type.id in TEXT_VIEWS:
        return array.cast(type_)
    if kinds.is_struct(type_):
        children = [unpack(array.field(i)) for i in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if kinds.is_map(type_):
        entries = [unpack(array.keys), unpack(array.items)]
        return _over(array, type_, pa.StructArray.from_arrays(entries, fields=[type_.key_field, type_.item_field]))
    if array.type.id in LIST_VIEWS:
        return _listed(array, type_)
    return _over(array, type_, unpack(array.values))


def _over(array: pa.Array, type_: pa.DataType, items: pa.Array) -> pa.Array:
    """An array with the validity and offsets of `array` over other items."""
    own = array.buffers()[: 1 if kinds.is_fixed_size_list(type_) else 2]
    return pa.Array.from_buffers(type_, len(array), own, array.null_count, array.offset, [items])


def _listed(array: Any, type_: pa.DataType) -> pa.Array:
    """List views as lists. The items of list views lie anywhere, in any order, even more than once; those of lists
    follow each other.
    """
    starts, lengths = (numbers.to_numpy().astype(np.int64) for numbers in (array.offsets, array.sizes))
    if array.null_count:
        lengths = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    ends = np.cumsum(lengths)
    positions = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if ends.size else 0)
    items = unpack(array.values).take(pa.array(positions))
    kind = pa.LargeListArray if kinds.is_large_list(type_) else pa.ListArray
    offsets = pa.array(np.concatenate(([0], ends)), pa.int64() if kinds.is_large_list(type_) else pa.int32())
    mask = array.is_null() if array.null_count else None
    return kind.from_arrays(offsets, items, type=type_, mask=mask)

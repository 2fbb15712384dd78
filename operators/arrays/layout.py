"""Brings Arrow arrays to one storage layout, and gives their values and list items to NumPy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from .casts import plain

Values: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]
Flags: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]
Places: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
Words: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

_ONE_WORD_DIGITS = 18
_POSITION = pa.int64()
_LISTS = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list, kinds.is_map)
_VIEWS = (kinds.is_list_view, kinds.is_large_list_view)
#: A copy in plain form could not hold more than 2 GiB; and pyarrow makes invalid lists of list views.
_LEFT_AS_THEY_ARE = (kinds.is_large_string, kinds.is_large_binary, kinds.is_large_list, *_VIEWS)


def is_list(type_: pa.DataType) -> bool:
    """True where `Lists` takes arrays of this type: lists of every kind, and maps, which are lists of entries."""
    type_ = plain(type_)
    return any(test(type_) for test in _LISTS)


def stored(array: pa.Array) -> pa.Array:
    """`array` without dictionary, run ends or extension, and with views of text and bytes as plain text and bytes."""
    if isinstance(array, pa.ExtensionArray):
        return stored(array.storage)
    if kinds.is_dictionary(array.type):
        return stored(array.dictionary_decode())
    if kinds.is_run_end_encoded(array.type):
        return stored(pc.run_end_decode(array))
    type_ = plain(array.type)
    as_it_is = array.type.equals(type_) or any(test(array.type) for test in _LEFT_AS_THEY_ARE)
    return array if as_it_is else array.cast(type_)


def flags(array: pa.Array) -> Flags:
    """A boolean array as a NumPy array; false where it is null."""
    if array.null_count:
        array = array.fill_null(False)
    bits: Flags = array.to_numpy(zero_copy_only=False)
    return bits


def dtype_of(type_: pa.DataType) -> str | None:
    """The NumPy dtype that reads each value of a type as one word in the type's order; None where there is none."""
    if kinds.is_integer(type_):
        return f"{'u' if kinds.is_unsigned_integer(type_) else 'i'}{type_.bit_width // 8}"
    if kinds.is_float32(type_) or kinds.is_float64(type_):
        return f"f{type_.bit_width // 8}"
    if kinds.is_decimal128(type_) and type_.precision <= _ONE_WORD_DIGITS:
        return "i8"
    if kinds.is_date(type_) or kinds.is_time(type_) or kinds.is_timestamp(type_) or kinds.is_duration(type_):
        return f"i{type_.bit_width // 8}"
    return None


def values(array: pa.Array) -> Values:
    """The values, in place, of an array whose type has a `dtype_of`. The value below a null is arbitrary."""
    dtype = np.dtype(dtype_of(array.type))
    if not len(array):
        return np.zeros(0, dtype)
    words = array.type.bit_width // 8 // dtype.itemsize
    raw = np.frombuffer(array.buffers()[1], dtype, len(array) * words, array.offset * words * dtype.itemsize)
    return raw[::words]


def arrow_positions(positions: Places) -> pa.Array:
    """The positions as Arrow has them. (`pa.array` asks first whether pandas knows their type.)"""
    words = np.ascontiguousarray(positions, np.int64)
    return pa.Array.from_buffers(_POSITION, len(words), [None, pa.py_buffer(words)])


def take(array: pa.Array, positions: pa.Array) -> pa.Array:
    """The values at these positions, also for views of text and bytes, which pyarrow cannot take from."""
    if kinds.is_string_view(array.type) or kinds.is_binary_view(array.type):
        return stored(array).take(positions).cast(array.type)
    return array.take(positions)


class Lists:
    """The lists of an array: `lengths[i]` of `items`, from `offsets[i]` on; a null list has none. A map's items are
    structs of key and value.
    """

    items: pa.Array
    offsets: Places
    lengths: Places

    def __init__(self, array: pa.Array) -> None:
        array = stored(array)
        rows = len(array)
        if kinds.is_fixed_size_list(array.type):
            size = array.type.list_size
            self.items = array.values
            self.offsets = (np.arange(rows, dtype=np.int64) + array.offset) * size
            self.lengths = np.full(rows, size, np.int64)
        elif any(test(array.type) for test in _VIEWS):
            self.items = array.values
            self.offsets, self.lengths = (part.to_numpy().astype(np.int64) for part in (array.offsets, array.sizes))
        else:
            bounds = array.offsets.to_numpy().astype(np.int64)
            self.items = _entries(array) if kinds.is_map(array.type) else array.values
            self.offsets, self.lengths = bounds[:-1], np.diff(bounds)
        if array.null_count:
            self.lengths = np.where(flags(array.is_null()), 0, self.lengths)


def _entries(array: Any) -> pa.StructArray:
    return pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])

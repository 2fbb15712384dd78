"""Zeros in place of what lies behind nulls.

Where a value is null, the array still has room for one, and an engine leaves there what was in its memory: parts of
other rows, also those of other tasks. Arrow's messages and files carry these bytes. Rows that leave the process carry
zeros there, so the bytes of a result are a function of its values.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ..core.batches import batch_of

Mask: TypeAlias = npt.NDArray[np.bool_]


def cleared(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with zeros behind its nulls: the batch itself where there are none. Values that are written once and
    stand in many rows stay as they are.
    """
    columns = batch.columns
    cleared_columns = [_cleared(column) for column in columns]
    if all(one is other for one, other in zip(columns, cleared_columns, strict=True)):
        return batch
    return batch_of(cleared_columns, batch.num_rows, batch.schema)


def _cleared(array: pa.Array, above: Mask | None = None) -> pa.Array:
    """The array with zeros behind its own nulls, and in the rows `above`, which are null in the array around it."""
    type_ = array.type
    if not len(array):
        return array
    if kinds.is_nested(type_):
        return _nested(array, above)
    if above is None and not array.null_count:
        return array
    if kinds.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(_cleared(array.indices, above), array.dictionary, ordered=type_.ordered)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, _cleared(array.storage, above))
    if kinds.is_boolean(type_):
        return _booleans(array, _hidden(array, above))
    if _is_fixed(type_):
        return _fixed(array, _hidden(array, above))
    return _texts(array, _hidden(array, above)) if _is_text(type_) else array


def _nested(array: pa.Array, above: Mask | None) -> pa.Array:
    if kinds.is_struct(array.type):
        return _struct(array, above)
    if kinds.is_fixed_size_list(array.type):
        return _fixed_size_list(array, above)
    is_list = kinds.is_list(array.type) or kinds.is_large_list(array.type) or kinds.is_map(array.type)
    return _list(array, above) if is_list else array


def _hidden(array: pa.Array, above: Mask | None) -> Mask:
    """The rows whose values nobody may see."""
    nulls = _nulls(array)
    return nulls if above is None else nulls | above


def _nulls(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return ~_bits(array.buffers()[0], array)


def _bits(buffer: pa.Buffer, array: pa.Array) -> Mask:
    """The bits of a buffer that are the array's."""
    start, bit = divmod(array.offset, 8)
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8)[start:], count=bit + len(array), bitorder="little")
    return bits[bit:].view(np.bool_)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """The bits of the array's nulls, from a buffer's start."""
    return pa.py_buffer(np.packbits(~_nulls(array), bitorder="little")) if array.null_count else None


def _fixed(array: pa.Array, hidden: Mask) -> pa.Array:
    width = array.type.bit_width // 8
    word = next(size for size in (8, 4, 2, 1) if width % size == 0)
    words = np.frombuffer(array.buffers()[1], f"i{word}", len(array) * (width // word), array.offset * width)
    values = np.where(hidden[:, np.newaxis], 0, words.reshape(len(array), -1))
    return _of(array, [_validity(array), pa.py_buffer(values.astype(words.dtype, copy=False))])


def _booleans(array: pa.Array, hidden: Mask) -> pa.Array:
    bits = _bits(array.buffers()[1], array)
    return _of(array, [_validity(array), pa.py_buffer(np.packbits(bits & ~hidden, bitorder="little"))])


def _of(array: pa.Array, buffers: list[pa.Buffer | None]) -> pa.Array:
    return pa.Array.from_buffers(array.type, len(array), buffers, null_count=array.null_count)


def _texts(array: pa.Array, hidden: Mask) -> pa.Array:
    offsets = _offsets(array)
    if not ((offsets[1:] - offsets[:-1]) * hidden).any():
        return array
    return pc.if_else(pa.array(hidden), _no_text(array), array)


def _no_text(array: pa.Array) -> pa.Array:
    """Empty texts where the array has values, and nulls where it has none."""
    return pc.if_else(array.is_null(), pa.scalar(None, array.type), pc.cast(pa.scalar(""), array.type))


def _struct(array: pa.StructArray, above: Mask | None) -> pa.Array:
    hidden = _hidden(array, above) if array.null_count or above is not None else None
    children = [array.field(at) for at in range(array.type.num_fields)]
    clear = [_cleared(child, hidden) for child in children]
    if all(one is other for one, other in zip(children, clear, strict=True)):
        return array
    mask = pa.array(_nulls(array)) if array.null_count else None
    return pa.StructArray.from_arrays(clear, fields=list(array.type), mask=mask)


def _list(array: pa.Array, above: Mask | None) -> pa.Array:
    """A list or a map, without the items of rows that nobody may see."""
    offsets = _offsets(array)
    hidden = _hidden(array, above) if array.null_count or above is not None else None
    counts = np.diff(offsets)
    values = _items(array).slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    if hidden is not None and counts[hidden].any():
        values = values.filter(pa.array(np.repeat(~hidden, counts)))
        counts = np.where(hidden, 0, counts)
    elif (clear := _cleared(values)) is values:
        return array
    else:
        values = clear
    new_offsets = np.zeros(len(array) + 1, offsets.dtype)
    np.cumsum(counts, out=new_offsets[1:])
    return pa.Array.from_buffers(
        array.type,
        len(array),
        [_validity(array), pa.py_buffer(new_offsets)],
        null_count=array.null_count,
        children=[_cleared(values)],
    )


def _fixed_size_list(array: pa.FixedSizeListArray, above: Mask | None) -> pa.Array:
    size = array.type.list_size
    hidden = _hidden(array, above) if array.null_count or above is not None else None
    values = array.values.slice(array.offset * size, len(array) * size)
    clear = _cleared(values, None if hidden is None else np.repeat(hidden, size))
    if clear is values:
        return array
    return pa.Array.from_buffers(
        array.type, len(array), [_validity(array)], null_count=array.null_count, children=[clear]
    )


def _items(array: pa.Array) -> pa.Array:
    if not kinds.is_map(array.type):
        return array.values
    fields = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)


def _offsets(array: pa.Array) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    wide = kinds.is_large_list(array.type) or kinds.is_large_string(array.type) or kinds.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    return np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize)


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        kinds.is_string(type_) or kinds.is_binary(type_) or kinds.is_large_string(type_) or kinds.is_large_binary(type_)
    )


def _is_fixed(type_: pa.DataType) -> bool:
    return bool(kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_)) or (
        type_ == pa.month_day_nano_interval()
    )

"""Zeros in place of what lies behind nulls.

Where a value is null, the array still has room for one, and an engine leaves there what was in its memory: parts of
other rows, also those of other tasks. Arrow's messages and files carry these bytes. Rows that leave the process carry
zeros there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from ..core.batches import batch_of
from ..core.sizes import is_text

Mask: TypeAlias = npt.NDArray[np.bool_]
Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]


def cleared(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with zeros behind its nulls: the batch itself where there are none. Dictionaries, unions, views and
    run-end encoded columns stay as they are: no engine makes them of rows of other tasks.
    """
    columns = batch.columns
    cleared_columns = [_cleared(column) for column in columns]
    if all(map(is_, columns, cleared_columns)):
        return batch
    return batch_of(cleared_columns, batch.num_rows, batch.schema)


@dataclass(frozen=True, slots=True)
class _Above:
    """The rows that are null in the array around an array. A `required` array has no nulls of its own."""

    hidden: Mask
    required: bool


def _cleared(array: pa.Array, above: _Above | None = None) -> pa.Array:
    """The array with zeros behind its own nulls and in the rows that are null above it."""
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
        return _booleans(array, above)
    if _is_fixed(type_):
        return _fixed(array, above)
    return _texts(array, above) if is_text(type_) else array


def _nested(array: pa.Array, above: _Above | None) -> pa.Array:
    if kinds.is_struct(array.type):
        return _struct(array, above)
    if kinds.is_fixed_size_list(array.type):
        return _fixed_size_list(array, above)
    is_list = kinds.is_list(array.type) or kinds.is_large_list(array.type) or kinds.is_map(array.type)
    return _list(array, above) if is_list else array


def _hidden(array: pa.Array, above: _Above | None) -> Mask | None:
    """The rows whose values nobody may see; None where there are none."""
    nulls = ~_bits(array.buffers()[0], array) if array.null_count else None
    if above is None:
        return nulls
    return above.hidden if nulls is None else nulls | above.hidden


def _bits(buffer: pa.Buffer, array: pa.Array) -> Mask:
    """The bits of a buffer that are the array's."""
    start, bit = divmod(array.offset, 8)
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8)[start:], count=bit + len(array), bitorder="little")
    return bits[bit:].view(np.bool_)


def _of(
    array: pa.Array, above: _Above | None, buffers: Sequence[pa.Buffer], children: Sequence[pa.Array] | None = None
) -> pa.Array:
    """An array of the same type from the start of these buffers: null where it is null or hidden."""
    hidden = _hidden(array, above)
    if hidden is None or (above is not None and above.required):
        validity, count = None, 0
    else:
        validity, count = pa.py_buffer(np.packbits(~hidden, bitorder="little")), int(np.count_nonzero(hidden))
    return pa.Array.from_buffers(array.type, len(array), [validity, *buffers], count, children=children)


def _fixed(array: pa.Array, above: _Above | None) -> pa.Array:
    width, hidden = array.type.bit_width // 8, _hidden(array, above)
    if hidden is None:
        return array
    if not width:
        return _of(array, above, [pa.py_buffer(b"")])
    word = next(size for size in (8, 4, 2, 1) if width % size == 0)
    words = np.frombuffer(array.buffers()[1], f"i{word}", len(array) * (width // word), array.offset * width)
    values = np.where(hidden[:, np.newaxis], 0, words.reshape(len(array), -1))
    return _of(array, above, [pa.py_buffer(values.astype(words.dtype, copy=False))])


def _booleans(array: pa.Array, above: _Above | None) -> pa.Array:
    bits, hidden = _bits(array.buffers()[1], array), _hidden(array, above)
    if hidden is not None:
        bits = bits & ~hidden
    return _of(array, above, [pa.py_buffer(np.packbits(bits, bitorder="little"))])


def _texts(array: pa.Array, above: _Above | None) -> pa.Array:
    offsets, hidden = _offsets(array), _hidden(array, above)
    if hidden is None:
        return array
    _, _, data = array.buffers()
    lengths = np.diff(offsets)
    if (lengths * hidden).any():
        shown = np.repeat(~hidden, lengths)
        data = pa.py_buffer(np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]][shown])
        offsets = _ends(lengths * ~hidden, offsets.dtype)
    return _of(array, above, [pa.py_buffer(offsets), data])


def _struct(array: pa.StructArray, above: _Above | None) -> pa.Array:
    hidden = _hidden(array, above)
    fields = list(array.type)
    children = [array.field(at) for at in range(len(fields))]
    inside = [None if hidden is None else _Above(hidden, required=not field.nullable) for field in fields]
    clear = [_cleared(child, one) for child, one in zip(children, inside, strict=True)]
    if hidden is None and all(map(is_, children, clear)):
        return array
    return _of(array, above, [], clear)


def _list(array: pa.Array, above: _Above | None) -> pa.Array:
    """A list or a map, without the items of rows that nobody may see."""
    if above is None and not array.null_count and _has_no_nulls(array):
        return array
    offsets, hidden = _offsets(array), _hidden(array, above)
    values = _items(array).slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    counts = np.diff(offsets)
    if hidden is not None and (counts * hidden).any():
        shown = values.filter(pa.array(np.repeat(~hidden, counts)))
        counts = counts * ~hidden
    else:
        shown = values
    clear = _cleared(shown)
    if hidden is None and clear is values:
        return array
    return _of(array, above, [pa.py_buffer(_ends(counts, offsets.dtype))], [clear])


def _has_no_nulls(lists: pa.Array) -> bool:
    """True where no item, outside of a slice too, is null; False where that takes a closer look."""
    if kinds.is_map(lists.type):
        return False
    items = lists.type.value_type
    return (_is_fixed(items) or is_text(items)) and not lists.values.null_count


def _fixed_size_list(array: pa.FixedSizeListArray, above: _Above | None) -> pa.Array:
    size, hidden = array.type.list_size, _hidden(array, above)
    values = array.values.slice(array.offset * size, len(array) * size)
    inside = None
    if hidden is not None:
        inside = _Above(np.repeat(hidden, size), required=not array.type.value_field.nullable)
    clear = _cleared(values, inside)
    return array if hidden is None and clear is values else _of(array, above, [], [clear])


def _items(array: pa.Array) -> pa.Array:
    if not kinds.is_map(array.type):
        return array.values
    fields = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)


def _offsets(array: pa.Array) -> Offsets:
    wide = kinds.is_large_list(array.type) or kinds.is_large_string(array.type) or kinds.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    return np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize)


def _ends(lengths: npt.NDArray[np.integer[Any]], dtype: np.dtype[Any]) -> Offsets:
    """Offsets of values of these lengths."""
    offsets: Offsets = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _is_fixed(type_: pa.DataType) -> bool:
    return bool(kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_)) or (
        type_ == pa.month_day_nano_interval()
    )

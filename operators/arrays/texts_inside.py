"""The texts and binary values of a column, also inside of lists, structs and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds


def has_texts(type_: pa.DataType) -> bool:
    """True where `texts_in` looks at values of a type."""
    if kinds.is_string(type_) or kinds.is_binary(type_):
        return True
    return _is_opened(type_) and any(has_texts(type_.field(at).type) for at in range(type_.num_fields))


def texts_in(array: pa.Array) -> Iterator[pa.Array]:
    """The texts of the column's values, and perhaps some below nulls."""
    if not has_texts(array.type):
        return
    if not _is_opened(array.type):
        yield array
        return
    for child in _children(array):
        yield from texts_in(child)


def with_texts(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The column with all its texts changed: `change` gives as many texts as it takes."""
    type_ = array.type
    if not has_texts(type_):
        return array
    if not _is_opened(type_):
        return change(array)
    children = [with_texts(child, change) for child in _children(array)]
    nulls = array.is_null() if array.null_count else None
    if kinds.is_struct(type_):
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=nulls)
    if kinds.is_fixed_size_list(type_):
        return pa.FixedSizeListArray.from_arrays(*children, type=type_, mask=nulls)
    kind = pa.MapArray if kinds.is_map(type_) else pa.ListArray
    offsets = pc.subtract(array.offsets, array.offsets[0])
    return kind.from_arrays(offsets, *children, type=type_, mask=nulls)


def _is_opened(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (kinds.is_list, kinds.is_fixed_size_list, kinds.is_struct, kinds.is_map))


def _children(array: pa.Array) -> list[pa.Array]:
    """The values inside of the column's rows, without those of other rows."""
    if kinds.is_struct(array.type):
        return [array.field(at) for at in range(array.type.num_fields)]
    if kinds.is_fixed_size_list(array.type):
        size = array.type.list_size
        return [array.values.slice(array.offset * size, len(array) * size)]
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    children = (array.keys, array.items) if kinds.is_map(array.type) else (array.values,)
    return [child.slice(first, last - first) for child in children]

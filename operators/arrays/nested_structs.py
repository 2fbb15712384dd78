"""Structs inside of structs, as DuckDB takes them: it refuses them in an array that begins behind the start of its
buffers, such as a slice.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as kinds


def has_nested_structs(type_: pa.DataType) -> bool:
    """True if values of the type are structs with structs in them."""
    return kinds.is_struct(type_) and any(kinds.is_struct(field.type) for field in type_)


def from_the_start(array: pa.Array) -> pa.Array:
    """The same structs in arrays that begin at their buffers' start. Only the bits of nulls are copied."""
    if not kinds.is_struct(array.type):
        return array
    children = [from_the_start(array.field(at)) for at in range(array.type.num_fields)]
    nulls = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(array.type), mask=nulls)

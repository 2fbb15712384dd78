"""Arrays of nested types as Python values that keep everything.

Python's dates and times end with the year 9999 and have no nanoseconds, and its dictionaries have each name once. So
moments become numbers, and the fields of structs are named by their positions.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as kinds

from ....proto.arrow.nested_types import with_types


def plain(array: pa.Array) -> pa.Array:
    """The array as one whose Python values are exact, in the same memory. The values keep their order."""
    type_ = _plain_type(array.type)
    return array if type_.equals(array.type) else array.view(type_)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if kinds.is_struct(type_):
        return pa.struct([pa.field(str(at), _plain_type(field.type)) for at, field in enumerate(type_)])
    if kinds.is_date32(type_) or kinds.is_time32(type_):
        return pa.int32()
    if kinds.is_date64(type_) or kinds.is_time64(type_) or kinds.is_timestamp(type_) or kinds.is_duration(type_):
        return pa.int64()
    return with_types(type_, _plain_type)

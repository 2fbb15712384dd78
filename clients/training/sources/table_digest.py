"""Digests of the rows of Arrow tables, whatever their chunks and whatever memory lies around their values."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

_AT_ONCE = 65_536


def content(table: pa.Table) -> bytes:
    """A digest of the rows of a table."""
    sink = _Digest()
    rows = pa.table([_decoded(column) for column in table.columns], schema=_decoded_schema(table.schema))
    if not rows.schema.equals(table.schema):
        sink.write(str(table.schema).encode())
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), rows.schema) as writer:
        for batch in rows.combine_chunks().to_batches(max_chunksize=_AT_ONCE):
            columns = [_comparable(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=rows.schema))
    return sink.digest.digest()


def _decoded_schema(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_type(_decoded_type(field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without dictionaries and views, in which the same values can stand in many ways."""
    type_ = _decoded_type(column.type)
    return column if type_ == column.type else column.cast(type_)


def _decoded_type(type_: pa.DataType) -> pa.DataType:
    if kinds.is_dictionary(type_):
        return _decoded_type(type_.value_type)
    if kinds.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if kinds.is_binary_view(type_) else type_


def _comparable(array: pa.Array) -> pa.Array:
    try:
        return _values_alone(array)
    except pa.ArrowNotImplementedError:  # views inside of structs, for example
        return array


def _values_alone(array: pa.Array) -> pa.Array:
    """The same values in memory of their own, with zeros below nulls. A slice has bits of the rows behind its end."""
    type_ = array.type
    if kinds.is_struct(type_) and type_.num_fields:
        fields = [_values_alone(field) for field in array.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=array.is_null())
    if kinds.is_fixed_size_list(type_) and type_.list_size:
        values = _values_alone(array.values.take(_items(array)))
        return pa.FixedSizeListArray.from_arrays(values, type=type_, mask=array.is_null())
    taken = array.take(pa.array(np.arange(len(array))))
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        kind = type(taken)
        return kind.from_arrays(taken.offsets, _values_alone(taken.values), type=type_, mask=taken.is_null())
    return taken


def _items(array: pa.FixedSizeListArray) -> pa.Array:
    """The numbers of the items of each list, null in lists that are null."""
    size = array.type.list_size
    numbers = np.arange(array.offset * size, (array.offset + len(array)) * size)
    return pa.array(numbers, mask=np.repeat(np.asarray(array.is_null()), size))


class _Digest:
    """A file that keeps the digest of its bytes alone."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

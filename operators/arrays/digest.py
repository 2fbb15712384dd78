"""A digest of rows and their order, bit for bit, independent of the cuts between batches.

Each column is hashed as three streams (which rows are null, the lengths of values, the values), nulls as zeros. The
digest is over the columns' digests, the schema and the number of rows. Floats count by their bits: -0.0 is not 0.0, and
NaNs with different bits differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from .casts import plain

_SIZE = 16


class RowDigest:
    """The digest of batches of one schema, added in order. `hexdigest` may be called at any time."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema.remove_metadata()
        self._columns = [_Column(field.type) for field in schema]
        self._rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        for column, array in zip(self._columns, batch.columns, strict=True):
            column.update(array)

    def hexdigest(self) -> str:
        total = hashlib.blake2b(str(self._schema).encode(), digest_size=_SIZE)
        total.update(self._rows.to_bytes(8, "little"))
        for column in self._columns:
            total.update(column.digest())
        return total.hexdigest()


def digest(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
    """The digest of all rows of `batches`."""
    rows = RowDigest(schema)
    for batch in batches:
        rows.update(batch)
    return rows.hexdigest()


class _Column:
    """The hashes of one column and of the columns inside it."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = plain(type_)
        self._shape = hashlib.blake2b(digest_size=_SIZE)
        self._values = hashlib.blake2b(digest_size=_SIZE)
        self._children = [_Column(self._type.field(i).type) for i in range(self._type.num_fields)]

    def update(self, array: pa.Array) -> None:
        array = _plain_array(array, self._type)
        if kinds.is_struct(self._type):
            self._shape.update(_valid(array))
            for child, values in zip(self._children, array.flatten(), strict=True):
                child.update(values)
        elif kinds.is_map(self._type):
            self.update_lists(array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field]))))
        elif kinds.is_list(self._type) or kinds.is_fixed_size_list(self._type):
            self.update_lists(array)
        elif kinds.is_string(self._type) or kinds.is_binary(self._type):
            self._shape.update(_lengths(pc.binary_length(array)))
            self._values.update(_joined(array))
        elif not kinds.is_null(self._type):
            self._shape.update(_valid(array))
            self._values.update(_fixed(array))

    def update_lists(self, array: pa.Array) -> None:
        self._shape.update(_lengths(pc.list_value_length(array)))
        self._children[0].update(array.flatten())

    def digest(self) -> bytes:
        return b"".join([self._shape.digest(), self._values.digest(), *(child.digest() for child in self._children)])


def _plain_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return _plain_array(array.storage, type_)
    if kinds.is_dictionary(array.type):
        return _plain_array(array.dictionary_decode(), type_)
    if kinds.is_run_end_encoded(array.type):
        return _plain_array(pc.run_end_decode(array), type_)
    return array if array.type.equals(type_) or kinds.is_nested(type_) else array.cast(type_)


def _valid(array: pa.Array) -> bytes:
    return bytes(array.is_valid().to_numpy(zero_copy_only=False).tobytes())


def _lengths(lengths: pa.Array) -> bytes:
    return bytes(lengths.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).astype("<i8").tobytes())


def _joined(array: pa.Array) -> bytes:
    """The bytes of all values, one after the other. A null has none, whatever bytes lie below it."""
    values = array.drop_null() if array.null_count else array
    if not len(values):
        return b""
    offsets = np.frombuffer(values.buffers()[1], dtype="<i4")[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    return b"" if data is None else memoryview(data)[offsets[0] : offsets[-1]].tobytes()


def _fixed(array: pa.Array) -> bytes:
    if kinds.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return b""
    start = array.offset * width
    values = np.frombuffer(buffer, dtype=np.uint8)[start : start + len(array) * width].reshape(len(array), width)
    if array.null_count:
        values = values * array.is_valid().to_numpy(zero_copy_only=False)[:, None]
    return values.tobytes()

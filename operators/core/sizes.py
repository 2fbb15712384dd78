"""The number of bytes that rows count for in limits of memory.

`batch_bytes` is about the memory of a batch, and depends on its layout. `row_bytes` is a function of the values alone,
so a decision by it is the same whatever batches the rows come in.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.arrow.last_schema import of_last_schema
from ...proto.arrow.unpack import CODES

Sizes: TypeAlias = npt.NDArray[np.int64]
TextBytes: TypeAlias = Callable[[pa.Array], Sizes]
"""The bytes that each of some texts counts for."""

#: About the bytes of rows that are read, or handed out, at once.
BATCH_BYTES: Final = 4 << 20

#: The bytes that a row of a nested or encoded type counts for where its values are not looked at.
_UNKNOWN_WIDTH: Final = 8


def batch_bytes(batch: pa.RecordBatch) -> int:
    """About the bytes of the batch's rows; of a slice, the slice's rows alone. (`nbytes` costs microseconds for each
    column.)
    """
    if _last.batch() is not batch:
        _last.size = int(pa.ipc.get_record_batch_size(batch))
        _last.batch = weakref.ref(batch)
    return _last.size


class _LastAsked(threading.local):
    """The batch that the thread asked for last, and its bytes. Whoever a batch passes asks again, and Arrow gives up
    the interpreter lock to answer, which other channels then have.
    """

    def __init__(self) -> None:
        self.batch: Callable[[], pa.RecordBatch | None] = lambda: None
        self.size = 0


_last: Final = _LastAsked()


def fixed_row_bytes(schema: pa.Schema) -> int | None:
    """The bytes that each row of the schema counts for; None where they depend on the values."""
    widths = [_fixed(type_) for type_ in schema.types]
    known = [width for width in widths if width is not None]
    return sum(known) if len(known) == len(widths) else None


def rows_within(size: int, row_size: int, most: int) -> int:
    """The number of rows of `row_size` bytes that are at most `size` bytes and `most` rows; at least one."""
    return max(1, min(most, size // max(row_size, 1)))


@of_last_schema
def has_encoded(schema: pa.Schema) -> bool:
    """True where `batch_bytes` says nothing about the rows of some column."""
    return any(map(is_encoded, schema.types))


def is_encoded(type_: pa.DataType) -> bool:
    """True where values, at any depth, are written once and stand in many rows: `batch_bytes` says nothing about
    them.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return is_encoded(type_.storage_type)
    if type_.id in CODES:
        return True
    return bool(type_.num_fields) and any(is_encoded(type_.field(index).type) for index in range(type_.num_fields))


def row_bytes(batch: pa.RecordBatch) -> Sizes:
    """The bytes that the values of each row count for. Values of fixed width count their width, texts and bytes their
    length, lists their items, values of dictionaries in every row that has them. Nulls of variable length count
    nothing. The sum is never more than `batch_bytes` where no column is encoded.
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += value_bytes(column)
    return sizes


def row_beyond(batch: pa.RecordBatch, most: int | None) -> tuple[int, int] | None:
    """The largest row of the batch and its bytes, if these are more than `most`."""
    if most is None or batch_bytes(batch) <= most:
        return None
    sizes = row_bytes(batch)
    row = int(np.argmax(sizes))
    return (row, int(sizes[row])) if sizes[row] > most else None


def text_bytes(array: pa.Array) -> Sizes:
    lengths = pc.binary_length(array)
    return np.asarray(lengths.fill_null(0) if lengths.null_count else lengths, np.int64)


def value_bytes(array: pa.Array, texts: TextBytes = text_bytes) -> Sizes:
    """The bytes that each value of a column counts for, where its texts count for `texts`."""
    type_ = array.type
    width = _fixed(type_)
    if width is not None:
        return np.full(len(array), width, np.int64)
    if isinstance(array, pa.ExtensionArray):
        return value_bytes(array.storage, texts)
    if kinds.is_dictionary(type_):
        return _repeated(array, texts)
    if kinds.is_run_end_encoded(type_):
        rows = np.arange(array.offset, array.offset + len(array))
        return value_bytes(array.values, texts)[np.searchsorted(np.asarray(array.run_ends), rows, side="right")]
    if is_text(type_):
        return texts(array)
    if kinds.is_struct(type_):
        children = (value_bytes(child, texts) for child in array.flatten())
        return _present(array, sum(children, np.zeros(len(array), np.int64)))
    if kinds.is_fixed_size_list(type_):
        items = array.values.slice(array.offset * type_.list_size, len(array) * type_.list_size)
        item_sizes = value_bytes(items, texts)
        return _present(array, item_sizes.reshape(len(array), type_.list_size).sum(axis=1))
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_map(type_):
        return _present(array, _lists(array, texts))
    return np.full(len(array), _UNKNOWN_WIDTH, np.int64)


def _repeated(array: pa.DictionaryArray, texts: TextBytes) -> Sizes:
    """The bytes of each row of values that are written once and stand in many rows, as if each row had its own
    value.
    """
    value_sizes = np.append(value_bytes(array.dictionary, texts), 0)
    sizes: Sizes = value_sizes[np.asarray(array.indices.fill_null(len(array.dictionary)).cast(pa.int64()))]
    return sizes


def _lists(array: pa.Array, texts: TextBytes) -> Sizes:
    offsets = np.asarray(array.offsets, np.int64)
    if not len(array):
        return np.zeros(0, np.int64)
    is_map = kinds.is_map(array.type)
    children = (array.keys, array.items) if is_map else (array.values,)
    first, last = int(offsets[0]), int(offsets[-1])
    up_to = np.zeros(last - first + 1, np.int64)
    for child in children:
        up_to[1:] += np.cumsum(value_bytes(child.slice(first, last - first), texts))
    return up_to[offsets[1:] - first] - up_to[offsets[:-1] - first]


def _present(array: pa.Array, sizes: Sizes) -> Sizes:
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), sizes, 0) if array.null_count else sizes


def is_text(type_: pa.DataType) -> bool:
    """True for texts and bytes of any length, which are stored as offsets into one buffer."""
    return bool(
        kinds.is_string(type_) or kinds.is_binary(type_) or kinds.is_large_string(type_) or kinds.is_large_binary(type_)
    )


def _fixed(type_: pa.DataType) -> int | None:
    """The bytes of each value of a type of fixed width. Bits and nulls count nothing."""
    if isinstance(type_, pa.BaseExtensionType):
        return _fixed(type_.storage_type)
    if kinds.is_null(type_):
        return 0
    if kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_):
        return int(type_.bit_width) // 8
    return None

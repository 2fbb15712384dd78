"""Read a large record batch of an Arrow file in parts.

pyarrow reads the body of a batch as a whole. The batch's metadata says where in the file each buffer is, so the values
of some rows can be read alone. A part is as many rows as take `BATCH_BYTES`. Batches with compressed buffers, and types
whose values lie elsewhere (dictionaries, views, unions, run ends), are read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from ....proto.arrow.flatbuffers import field, table
from ...core.batches import batch_of
from ...core.sizes import BATCH_BYTES
from .arrow_messages import Message
from .format import BATCH_ROWS

#: A batch with a smaller body is read as a whole, which is faster.
LARGE: Final = 4 * BATCH_BYTES

_PAIR: Final = 16  # of two 64-bit integers: a node's length and nulls, a buffer's offset and length
_BITS: Final = 8


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A buffer: some bytes of the file."""

    file: pa.NativeFile
    offset: int
    length: int

    def read(self, start: int, end: int) -> bytes:
        if not 0 <= start <= end <= self.length:
            raise pa.ArrowInvalid(f"bytes {start} to {end} of a buffer of {self.length} bytes")
        data = bytes(self.file.read_at(end - start, self.offset + start))
        if len(data) != end - start:
            raise pa.ArrowInvalid("the file ends inside a buffer")
        return data


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its type, whether it has nulls, its buffers (the first one says which rows have a value) and its
    children.
    """

    type: pa.DataType
    has_nulls: bool
    buffers: tuple[_Buffer, ...]
    children: tuple[_Column, ...]

    def size(self, start: int, end: int) -> int:
        """The bytes of these rows, without the bits for nulls."""
        width = _width(self.type)
        if width is not None:
            return (end - start) * width
        if kinds.is_struct(self.type):
            return sum(child.size(start, end) for child in self.children)
        if kinds.is_fixed_size_list(self.type):
            return self.children[0].size(start * self.type.list_size, end * self.type.list_size)
        first, last = int(self._offsets(start, start)[0]), int(self._offsets(end, end)[0])
        if last < first:
            raise pa.ArrowInvalid("the offsets of a column decrease")
        offsets = (end - start) * _offset_width(self.type)
        return offsets + (self.children[0].size(first, last) if self.children else last - first)

    def read(self, start: int, end: int) -> pa.Array:
        """Read these rows."""
        rows = end - start
        valid = pa.py_buffer(_bits(self.buffers[0], start, end)) if self.has_nulls else None
        if kinds.is_boolean(self.type):
            return pa.Array.from_buffers(self.type, rows, [valid, pa.py_buffer(_bits(self.buffers[1], start, end))])
        width = _width(self.type)
        if width is not None:
            data = self.buffers[1].read(start * width, end * width)
            return pa.Array.from_buffers(self.type, rows, [valid, pa.py_buffer(data)])
        if kinds.is_struct(self.type):
            children = [child.read(start, end) for child in self.children]
            return pa.Array.from_buffers(self.type, rows, [valid], children=children)
        if kinds.is_fixed_size_list(self.type):
            child = self.children[0].read(start * self.type.list_size, end * self.type.list_size)
            return pa.Array.from_buffers(self.type, rows, [valid], children=[child])
        offsets = self._offsets(start, end)
        first, last = int(offsets[0]), int(offsets[-1])
        moved = pa.py_buffer((offsets - offsets[0]).tobytes())
        if self.children:
            return pa.Array.from_buffers(self.type, rows, [valid, moved], children=[self.children[0].read(first, last)])
        return pa.Array.from_buffers(self.type, rows, [valid, moved, pa.py_buffer(self.buffers[2].read(first, last))])

    def _offsets(self, start: int, end: int) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
        """The offsets from the row `start` to the end of the row before `end`."""
        width = _offset_width(self.type)
        data = self.buffers[1].read(start * width, (end + 1) * width)
        return np.frombuffer(data, np.int64) if width == np.dtype(np.int64).itemsize else np.frombuffer(data, np.int32)


class LargeBatch:
    """Some columns of a record batch, read in parts."""

    def __init__(self, file: pa.NativeFile, message: Message, schema: pa.Schema, indices: Sequence[int]) -> None:
        self.schema = pa.schema([schema.field(index) for index in indices])
        view = message.metadata
        nodes, buffers = (_pairs(view, message.header, number) for number in (1, 2))
        self._rows = message.rows
        self._layout = _Layout(file, message.body, message.body_length, nodes, buffers)
        columns = [self._layout.column(field.type) for field in schema]
        self._columns = [columns[index] for index in indices]

    def parts(self) -> Iterator[pa.RecordBatch]:
        """All rows, in order, in parts. A part has as many rows as take `BATCH_BYTES`, at least one."""
        start, rows = 0, BATCH_ROWS
        while start < self._rows:
            rows = self._fitting(start, min(2 * rows, BATCH_ROWS, self._rows - start))
            arrays = [column.read(start, start + rows) for column in self._columns]
            yield batch_of(arrays, rows, self.schema)
            start += rows

    def _fitting(self, start: int, rows: int) -> int:
        while rows > 1 and sum(column.size(start, start + rows) for column in self._columns) > BATCH_BYTES:
            rows //= 2
        return rows


@dataclass(slots=True)
class _Layout:
    """The nodes and buffers of a batch, handed out in the order of its columns."""

    file: pa.NativeFile
    body: int
    body_length: int
    nodes: Iterator[tuple[int, int]]
    buffers: Iterator[tuple[int, int]]

    def column(self, type_: pa.DataType) -> _Column:
        if isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        node = next(self.nodes, None)
        if node is None:
            raise pa.ArrowInvalid("the metadata of a record batch has too few columns")
        own = tuple(self._buffer() for _ in range(_buffer_count(type_)))
        children = tuple(self.column(type_.field(index).type) for index in range(type_.num_fields))
        return _Column(type_, node[1] != 0, own, children)

    def _buffer(self) -> _Buffer:
        entry = next(self.buffers, None)
        if entry is None or entry[0] < 0 or entry[1] < 0 or sum(entry) > self.body_length:
            raise pa.ArrowInvalid("the metadata of a record batch has a buffer that is not in its body")
        return _Buffer(self.file, self.body + entry[0], entry[1])


def can_be_parted(type_: pa.DataType) -> bool:
    """True where the values of some rows can be read alone."""
    if isinstance(type_, pa.BaseExtensionType):
        return False
    if kinds.is_dictionary(type_) or kinds.is_null(type_):
        return False
    if type_.num_fields:
        plain = kinds.is_struct(type_) or kinds.is_fixed_size_list(type_) or _has_offsets(type_)
        return plain and all(can_be_parted(type_.field(index).type) for index in range(type_.num_fields))
    return kinds.is_boolean(type_) or _width(type_) is not None or _has_offsets(type_)


def _pairs(view: memoryview, header: int, number: int) -> Iterator[tuple[int, int]]:
    """A vector of structs of two 64-bit integers."""
    pairs = field(view, header, number)
    if not pairs:
        return
    at = table(view, pairs)
    for index in range(int.from_bytes(view[at : at + 4], "little")):
        start = at + 4 + index * _PAIR
        first, second = np.frombuffer(view[start : start + _PAIR], "<i8")
        yield int(first), int(second)


def _bits(buffer: _Buffer, start: int, end: int) -> bytes:
    """One bit for each of these rows, from the first bit on."""
    first = start // _BITS
    packed = np.frombuffer(buffer.read(first, -(-end // _BITS)), np.uint8)
    bits = np.unpackbits(packed, bitorder="little")[start - first * _BITS : end - first * _BITS]
    return np.packbits(bits, bitorder="little").tobytes()


def _buffer_count(type_: pa.DataType) -> int:
    if kinds.is_struct(type_) or kinds.is_fixed_size_list(type_):
        return 1
    return 3 if _has_offsets(type_) and not type_.num_fields else 2


def _has_offsets(type_: pa.DataType) -> bool:
    return any(is_it(type_) for is_it in _OFFSETS)


_SMALL_OFFSETS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    kinds.is_string,
    kinds.is_binary,
    kinds.is_list,
    kinds.is_map,
)
_LARGE_OFFSETS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    kinds.is_large_string,
    kinds.is_large_binary,
    kinds.is_large_list,
)
_OFFSETS: Final = _SMALL_OFFSETS + _LARGE_OFFSETS


def _offset_width(type_: pa.DataType) -> int:
    return 8 if any(is_it(type_) for is_it in _LARGE_OFFSETS) else 4


def _width(type_: pa.DataType) -> int | None:
    """The bytes of each value, where all values take the same; 0 for bits, None for other types."""
    if kinds.is_boolean(type_):
        return 0
    if kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_):
        return int(type_.bit_width) // 8
    return None

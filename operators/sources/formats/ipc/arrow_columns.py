"""Columns of a record batch, of which some rows are read at a time.

The batch's metadata says where each buffer is. A column knows its buffers and its children, so it reads the values of
some rows alone, and tells their bytes before it reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from .....proto.arrow.flatbuffers import field, table
from .arrow_buffers import Buffer, buffer_of
from .arrow_messages import Message

_PAIR: Final = 2  # 64-bit integers: a node's length and nulls, a buffer's offset and length
_BITS: Final = 8

Dictionaries = Mapping[int, pa.Array]
_Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """A column: its type, whether it has nulls, its buffers (the first one says which rows have a value) and its
    children. A column of a dictionary has the dictionary's values.
    """

    type: pa.DataType
    has_nulls: bool
    buffers: tuple[Buffer, ...]
    children: tuple[BatchColumn, ...]
    values: pa.Array | None = None

    def size(self, start: int, end: int, most: int) -> int:
        """The bytes of these rows; where they are more than `most`, any number above it. Values of a dictionary count
        their index.
        """
        rows = end - start
        own = rows // _BITS if self.has_nulls else 0
        if kinds.is_boolean(self.type):
            return own + rows // _BITS
        width = _width(self.type)
        if width is not None:
            return own + rows * width
        if kinds.is_fixed_size_list(self.type):
            items = self.type.list_size
            return own + self.children[0].size(start * items, end * items, most - own)
        if _has_offsets(self.type):
            own += rows * _offset_width(self.type)
            if own > most:
                return own
            offsets = self._rising(self.buffers[1].peek(*self._bounds(start, end)))
            start, end = int(offsets[0]), int(offsets[-1])
            if not self.children:
                return own + end - start
        for child in self.children:
            if own <= most:
                own += child.size(start, end, most - own)
        return own

    def read(self, start: int, end: int) -> pa.Array:
        """Read these rows."""
        if isinstance(self.type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(self.type, self.children[0].read(start, end))
        rows = end - start
        if kinds.is_null(self.type):
            return pa.nulls(rows)
        valid = pa.py_buffer(_bits(self.buffers[0], start, end)) if self.has_nulls else None
        if kinds.is_boolean(self.type):
            return pa.Array.from_buffers(self.type, rows, [valid, pa.py_buffer(_bits(self.buffers[1], start, end))])
        width = _width(self.type)
        if width is not None:
            data = pa.py_buffer(self.buffers[1].read(start * width, end * width))
            if self.values is None:
                return pa.Array.from_buffers(self.type, rows, [valid, data])
            indices = pa.Array.from_buffers(self.type.index_type, rows, [valid, data])
            # The indices are checked where the batch is, with all else of it.
            return pa.DictionaryArray.from_arrays(indices, self.values, ordered=self.type.ordered, safe=False)
        if kinds.is_struct(self.type):
            children = [child.read(start, end) for child in self.children]
            return pa.Array.from_buffers(self.type, rows, [valid], children=children)
        if kinds.is_fixed_size_list(self.type):
            items = self.type.list_size
            return pa.Array.from_buffers(
                self.type, rows, [valid], children=[self.children[0].read(start * items, end * items)]
            )
        offsets = self._rising(self.buffers[1].read(*self._bounds(start, end)))
        first, last = int(offsets[0]), int(offsets[-1])
        moved = pa.py_buffer((offsets - offsets[0]).tobytes())
        if self.children:
            return pa.Array.from_buffers(self.type, rows, [valid, moved], children=[self.children[0].read(first, last)])
        return pa.Array.from_buffers(self.type, rows, [valid, moved, pa.py_buffer(self.buffers[2].read(first, last))])

    def all_buffers(self) -> Iterator[Buffer]:
        yield from self.buffers
        for child in self.children:
            yield from child.all_buffers()

    def _bounds(self, start: int, end: int) -> tuple[int, int]:
        """The part of the offsets from the row `start` to the end of the row before `end`."""
        width = _offset_width(self.type)
        return start * width, (end + 1) * width

    def _rising(self, data: bytes) -> _Offsets:
        wide = _offset_width(self.type) == np.dtype(np.int64).itemsize
        offsets = np.frombuffer(data, np.int64) if wide else np.frombuffer(data, np.int32)
        if offsets[-1] < offsets[0]:
            raise pa.ArrowInvalid("the offsets of a column decrease")
        return offsets


@dataclass(frozen=True, slots=True)
class DictionaryIds:
    """The id of a field's dictionary, if it has one, and the ids of its children."""

    id: int | None
    children: tuple[DictionaryIds, ...] = ()

    def types(self, type_: pa.DataType) -> Iterator[tuple[int, pa.DataType]]:
        """The dictionaries of a field of this type, with the types of their values."""
        if isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        if kinds.is_dictionary(type_):
            if self.id is not None:
                yield self.id, type_.value_type
            type_ = type_.value_type
        for index, child in enumerate(self.children[: type_.num_fields]):
            yield from child.types(type_.field(index).type)


NO_DICTIONARY: Final = DictionaryIds(None)


def ids_of(view: memoryview, schema: int) -> tuple[DictionaryIds, ...]:
    """The dictionaries of a schema's fields."""
    return _ids_of_fields(view, field(view, schema, 1))  # Schema.fields


def _ids_of_fields(view: memoryview, vector: int) -> tuple[DictionaryIds, ...]:
    if not vector:
        return ()
    at = table(view, vector)
    count = int.from_bytes(view[at : at + 4], "little")
    return tuple(_ids(view, table(view, at + 4 + 4 * number)) for number in range(count))


def _ids(view: memoryview, of: int) -> DictionaryIds:
    encoding = field(view, of, 4)  # Field.dictionary
    children = _ids_of_fields(view, field(view, of, 5))  # Field.children
    if not encoding:
        return DictionaryIds(None, children)
    number = field(view, table(view, encoding), 0)  # DictionaryEncoding.id
    return DictionaryIds(int.from_bytes(view[number : number + 8], "little", signed=True) if number else 0, children)


class BatchLayout:
    """The nodes and buffers of a batch, handed out in the order of its columns."""

    def __init__(self, file: pa.NativeFile, message: Message) -> None:
        self._file = file
        self._message = message
        self._nodes = iter(_pairs(message, 1))  # RecordBatch.nodes
        self._buffers = iter(_pairs(message, 2))  # RecordBatch.buffers
        self._variadic = iter(_numbers(message, 4, 1)[:, 0])  # RecordBatch.variadicBufferCounts

    def column(self, type_: pa.DataType, ids: DictionaryIds, dictionaries: Dictionaries) -> BatchColumn:
        if isinstance(type_, pa.BaseExtensionType):
            storage = self.column(type_.storage_type, ids, dictionaries)
            return BatchColumn(type_, has_nulls=False, buffers=(), children=(storage,))
        node = next(self._nodes, None)
        if node is None:
            raise pa.ArrowInvalid("the metadata of a record batch has too few columns")
        own = tuple(self._buffer() for _ in range(self._buffer_count(type_)))
        if kinds.is_dictionary(type_):
            assert ids.id is not None
            return BatchColumn(type_, bool(node[1]), own, (), dictionaries.get(ids.id))
        children = tuple(
            self.column(type_.field(index).type, ids.children[index] if ids.children else ids, dictionaries)
            for index in range(type_.num_fields)
        )
        return BatchColumn(type_, bool(node[1]), own, children)

    def _buffer(self) -> Buffer:
        entry = next(self._buffers, None)
        if entry is None:
            raise pa.ArrowInvalid("the metadata of a record batch has too few buffers")
        offset, stored = int(entry[0]), int(entry[1])
        if offset < 0 or stored < 0 or offset + stored > self._message.body_length:
            raise pa.ArrowInvalid("the metadata of a record batch has a buffer that is not in its body")
        return buffer_of(self._file, self._message.body + offset, stored, self._message.codec)

    def _buffer_count(self, type_: pa.DataType) -> int:
        if kinds.is_null(type_) or kinds.is_run_end_encoded(type_):
            return 0
        if kinds.is_union(type_):
            return (2 if type_.mode == "dense" else 1) + self._message.is_old
        if kinds.is_string_view(type_) or kinds.is_binary_view(type_):
            return 2 + max(int(next(self._variadic, 0)), 0)
        if kinds.is_list_view(type_) or kinds.is_large_list_view(type_):
            return 3
        if kinds.is_struct(type_) or kinds.is_fixed_size_list(type_):
            return 1
        return 3 if _has_offsets(type_) and not type_.num_fields else 2


def can_be_parted(type_: pa.DataType) -> bool:
    """True where the values of some rows can be read alone."""
    if isinstance(type_, pa.BaseExtensionType):
        return can_be_parted(type_.storage_type)
    if kinds.is_dictionary(type_):
        return can_be_parted(type_.value_type) and not has_dictionary(type_.value_type)
    if type_.num_fields:
        plain = kinds.is_struct(type_) or kinds.is_fixed_size_list(type_) or _has_offsets(type_)
        return plain and all(can_be_parted(type_.field(index).type) for index in range(type_.num_fields))
    return any((kinds.is_null(type_), kinds.is_struct(type_), kinds.is_boolean(type_), _has_offsets(type_))) or (
        _width(type_) is not None
    )


def has_dictionary(type_: pa.DataType) -> bool:
    """True where the values, at any depth, are a dictionary's."""
    if isinstance(type_, pa.BaseExtensionType):
        return has_dictionary(type_.storage_type)
    return kinds.is_dictionary(type_) or any(
        has_dictionary(type_.field(index).type) for index in range(type_.num_fields)
    )


def buffer_lengths(message: Message) -> npt.NDArray[np.int64]:
    """The position in the body and the stored length of each buffer of a batch."""
    return _pairs(message, 2)


def _pairs(message: Message, number: int) -> npt.NDArray[np.int64]:
    return _numbers(message, number, _PAIR)


def _numbers(message: Message, number: int, width: int) -> npt.NDArray[np.int64]:
    """A vector of 64-bit integers, so many in a row."""
    view, at = message.metadata, field(message.metadata, message.header, number)
    if not at:
        return np.empty((0, width), np.int64)
    start = table(view, at)
    count = width * int.from_bytes(view[start : start + 4], "little")
    data = view[start + 4 : start + 4 + count * np.dtype(np.int64).itemsize]
    return np.frombuffer(data[: len(data) // 8 * 8], "<i8").reshape(-1, width)


def _bits(buffer: Buffer, start: int, end: int) -> bytes:
    """One bit for each of these rows, from the first bit on."""
    packed = buffer.read(start // _BITS, -(-end // _BITS))
    shift = start % _BITS
    if not shift:
        return packed
    low = np.frombuffer(packed, np.uint8)
    high = np.append(low[1:], np.uint8(0))
    return ((low >> shift) | (high << (_BITS - shift))).astype(np.uint8).tobytes()


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
    """The bytes of each value (of a dictionary: of its index) where all values take whole bytes, and as many; None for
    other types.
    """
    if kinds.is_dictionary(type_):
        return _width(type_.index_type)
    if kinds.is_boolean(type_):
        return None
    if kinds.is_primitive(type_) or kinds.is_decimal(type_) or kinds.is_fixed_size_binary(type_):
        return int(type_.bit_width) // 8
    return None

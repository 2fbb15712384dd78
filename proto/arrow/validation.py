"""Check rows that come from outside, once, before a kernel or DuckDB sees them.

Arrow's own readers check the shape of a batch alone. They take offsets, text that is no UTF-8 and indexes of
dictionaries as they are, and a kernel that follows a wrong offset or index reads memory outside of the file.
`validated` refuses wrong offsets, text and indexes, in children as well.

Arrow's full check takes text value by value, and checks all values of a slice's children. This module first checks a
column of text as a whole, which takes a third to two thirds of the time, and checks only the children's values that the
slice has. Arrow decides about every column that this first check does not prove right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as kinds

from .utf8 import ascii_bytes, is_utf8

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
_Offsets: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

_NARROW: Final = 4
_CHARACTER_MASK: Final = 0xC0
_CONTINUATION: Final = 0x80
_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_TEXT: Final = frozenset({pa.string(), pa.large_string()})
_TEXT_IDS: Final = frozenset(type_.id for type_ in _TEXT)
_BYTES: Final = frozenset({pa.binary(), pa.large_binary()})
#: Types of which every pattern of bits is a value.
_ANY_BITS: Final = frozenset(
    type_.id
    for type_ in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.duration("us")),
    )
)
#: Types without children of which Arrow looks at no more than the array's own values.
_FLAT: Final = _ANY_BITS | frozenset(type_.id for type_ in _TEXT | _BYTES)
_FEW: Final = 512
"""Up to so many texts Arrow's check is the fastest."""
_FEW_OFFSETS: Final = 8_192
"""Up to so many offsets Arrow's check is the fastest, where what they lead to need not be looked at."""
_FEW_ITEMS: Final = 1 << 20
"""Arrow's check counts the nulls of all items of a list, those outside of a slice too."""
_VIEWS: Final = frozenset({pa.string_view(), pa.binary_view()})
MOST_VIEWED: Final = 1 << 30
"""The most bytes of all values of a column of views. Many values may share the same bytes, and each is checked."""
_LARGE: Final = frozenset({pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY, pa.lib.Type_LARGE_LIST})
_LISTS: Final = frozenset({pa.lib.Type_LIST, pa.lib.Type_LARGE_LIST})


def validated(rows: Rows) -> Rows:
    """The rows themselves; `pa.ArrowInvalid` where they are not what their schema says, at any depth."""
    rows.validate()
    for column in rows.columns:
        for array in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            _check(array)
    return rows


def validated_schema(schema: pa.Schema) -> pa.Schema:
    """The schema itself; `pa.ArrowInvalid` where the name of a field or a time zone, at any depth, is not UTF-8."""
    for field in schema:
        _check_names(field)
    return schema


def each_validated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a reader, each checked as it is read."""
    return map(validated, batches)


def _check_names(field: pa.Field) -> None:
    type_ = field.type
    try:  # they are decoded only here
        field.name  # noqa: B018
        if kinds.is_timestamp(type_):
            type_.tz  # noqa: B018
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the name of a field or a time zone is not UTF-8: {error}") from error
    if kinds.is_dictionary(type_):
        _check_names(pa.field("", type_.value_type))
    elif isinstance(type_, pa.BaseExtensionType):
        _check_names(pa.field("", type_.storage_type))
    for index in range(type_.num_fields):
        _check_names(type_.field(index))


def viewed_bytes(array: pa.Array) -> int:
    """The bytes of all values of an array of views. Many values may share the same bytes; each counts."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return 0
    views = np.frombuffer(buffer, np.uint32).reshape(-1, 4)  # a view is 16 bytes, its length first
    lengths = views[array.offset : array.offset + len(array), 0]
    if array.null_count:
        lengths = lengths[array.is_valid().to_numpy(zero_copy_only=False)]
    return int(lengths.sum(dtype=np.int64))


def _check_views(array: pa.Array) -> None:
    """Raise `pa.ArrowInvalid` for views, at any depth, that have too many bytes to look at."""
    if array.type in _VIEWS:
        size = viewed_bytes(array)
        if size > MOST_VIEWED:
            raise pa.ArrowInvalid(
                f"a column of views has {size:,} bytes, with those that values share; at most {MOST_VIEWED:,} are "
                "allowed"
            )
        return
    for child in _children(array):
        _check_views(child)


def _check_least_decimals(array: pa.Array) -> None:
    """Raise `pa.ArrowInvalid` for a decimal, at any depth, whose bits are the least number that they can be. Arrow's
    own check lets it pass in every precision: its absolute value overflows.
    """
    if not kinds.is_decimal(array.type):
        for child in _children(array):
            _check_least_decimals(child)
        return
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return
    width = array.type.byte_width
    least = bytes(width - 1) + b"\x80"
    there = np.frombuffer(buffer, np.dtype((np.void, width)), len(array), width * array.offset)
    is_least = there == np.frombuffer(least, there.dtype)
    if array.null_count:
        is_least &= array.is_valid().to_numpy(zero_copy_only=False)
    if is_least.any():
        raise pa.ArrowInvalid(f"decimal value -2^{8 * width - 1} does not fit in precision of {array.type}")


def _children(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays inside of an array, as they are, without its offset."""
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        yield array.storage
    elif kinds.is_dictionary(type_):
        yield array.dictionary
    elif kinds.is_run_end_encoded(type_):
        yield array.values
    elif kinds.is_struct(type_) or kinds.is_union(type_):
        yield from map(array.field, range(type_.num_fields))
    elif kinds.is_map(type_):
        yield from (array.keys, array.items)
    elif type_.num_fields:
        yield array.values


def _check(array: pa.Array) -> None:
    """Raise `pa.ArrowInvalid` for an array of valid shape whose values are not valid."""
    if _arrow_is_fastest(array):
        array.validate(full=True)
    elif not (_nulls_are_counted(array) and is_proved_right(array)):
        _check_views(array)
        array.validate(full=True)
        _check_least_decimals(array)


def _arrow_is_fastest(array: pa.Array) -> bool:
    """True where Arrow's full check takes less time than the one here."""
    type_ = array.type
    if type_.id in _ANY_BITS:
        return True
    if type_.id in _FLAT:
        return len(array) <= (_FEW if type_.id in _TEXT_IDS else _FEW_OFFSETS)
    if type_.id not in _LISTS or type_.value_type.id not in _ANY_BITS:
        return False
    return len(array) <= _FEW_OFFSETS and len(array.values) <= _FEW_ITEMS


def is_proved_right(array: pa.Array) -> bool:
    """True where the values are proved right; False leaves the answer to Arrow. Raises for children that are wrong."""
    type_ = array.type
    if type_.id in _ANY_BITS:
        return True
    if type_ in _TEXT or type_ in _BYTES:
        return _has_right_values(array)
    if kinds.is_struct(type_):
        for index in range(type_.num_fields):
            _check(array.field(index))
        return True
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return _has_right_items(array)
    if kinds.is_dictionary(type_):
        _check(array.dictionary)
        return _leads_inside(array)
    if kinds.is_decimal128(type_):
        return _has_right_decimals(array)
    if kinds.is_time(type_):
        return _is_within(array, _DAY[type_.unit])
    return False


def _nulls_are_counted(array: pa.Array) -> bool:
    """True where the array has as many nulls as it says."""
    if isinstance(array, pa.ExtensionArray) or kinds.is_null(array.type) or kinds.is_union(array.type):
        return False
    bits = array.buffers()[0]
    if bits is None:
        return bool(array.null_count == 0)
    valid = pa.BooleanArray.from_buffers(pa.bool_(), len(array), [None, bits], 0, array.offset)
    return bool(len(array) - valid.true_count == array.null_count)


def _has_right_values(array: pa.Array) -> bool:
    """True where a column of text or bytes is proved right."""
    data = array.buffers()[2]
    offsets = _offsets(array)
    if not _rise(offsets, 0 if data is None else data.size):
        return False
    if array.type not in _TEXT or data is None or not len(offsets):
        return True
    return _is_text(np.frombuffer(data, np.uint8), offsets)


def _has_right_items(array: pa.ListArray) -> bool:
    offsets = _offsets(array)
    if not _rise(offsets, len(array.values)):
        return False
    if len(offsets):
        first, end = int(offsets[0]), int(offsets[-1])
        _check(array.values.slice(first, end - first))
    return True


def _leads_inside(array: pa.DictionaryArray) -> bool:
    bounds = pc.min_max(array.indices)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least is None or bool(least >= 0 and most < len(array.dictionary))


def _offsets(array: pa.Array) -> _Offsets:
    """The offsets of the array's values and the end of the last one; empty where the array has no value."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, np.int64)
    if array.type.id in _LARGE:
        return np.frombuffer(buffer, np.int64, len(array) + 1, 8 * array.offset)
    return np.frombuffer(buffer, np.int32, len(array) + 1, _NARROW * array.offset)


def _rise(offsets: _Offsets, end: int) -> bool:
    if not len(offsets):
        return True
    return bool(offsets[0] >= 0 and offsets[-1] <= end and (offsets[1:] >= offsets[:-1]).all())


def _is_text(data: NDArray[np.uint8], offsets: _Offsets) -> bool:
    """True where all values are UTF-8: their bytes taken together are UTF-8, and each value begins where a character
    does.
    """
    text = data[int(offsets[0]) : int(offsets[-1])]
    foreign = ascii_bytes(text)
    return foreign == len(text) or (is_utf8(text[foreign:]) and not _divides_characters(data, offsets))


def _divides_characters(data: NDArray[np.uint8], offsets: _Offsets) -> bool:
    """True where a value begins inside of a character."""
    starts = offsets[: np.searchsorted(offsets, offsets[-1])]
    return bool(((data.take(starts) & _CHARACTER_MASK) == _CONTINUATION).any())


def _has_right_decimals(array: pa.Decimal128Array) -> bool:
    """True where no value, behind nulls too, has more digits than the type."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return True
    limit: int = 10**array.type.precision
    words = np.frombuffer(buffer, np.int64, 2 * len(array), 16 * array.offset).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    most = limit >> 64
    if most:  # the upper half alone decides about all values but those next to the limit
        return int(high.max()) < most and int(high.min()) >= -most
    return bool(((low >> 63) == high).all()) and int(low.max()) < limit and int(low.min()) > -limit


def _is_within(array: pa.Array, end: int) -> bool:
    """True where all values, behind nulls too, are from 0 up to `end`."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return True
    size = array.type.bit_width // 8
    numbers = np.int32 if size == _NARROW else np.int64
    values = np.frombuffer(buffer, numbers, len(array), size * array.offset)
    return int(values.min()) >= 0 and int(values.max()) < end

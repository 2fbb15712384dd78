"""The hash of key columns, and the channel that it selects. Equal values have the same hash in every process and
version.

The hash is a pure function of the value. Storage (width, large or view, dictionary, offset of a slice), row, process
and machine have no influence. Values that are equal in one *family* hash alike: integers of all widths; floats of all
widths, -0.0 as 0.0, all NaNs as one; decimals of all widths, precisions and scales; dates; timestamps, times and
durations of all units; texts and bytes; lists; structs by the position of their fields. Across families nothing is
promised (the integer 5 is not the decimal 5.00): the keys of two joined streams have one type before they are hashed. A
null is a value of its own, the same one in every family.

`docs/exchanges.md` defines the function for other implementations. A change of the function takes a new version of all
data that is partitioned by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.errors import ExecutionError
from .casts import plain

Hashes: TypeAlias = npt.NDArray[np.uint64]
_Numbers: TypeAlias = npt.NDArray[np.int64]

MAX_CHANNELS: Final = 1 << 16

_WORD: Final = (1 << 64) - 1
_M1: Final = np.uint64(0x9E3779B97F4A7C15)
_M2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_M3: Final = np.uint64(0x165667B19E3779F9)
_FIRST, _SECOND, _THIRD = int(_M1), int(_M2), int(_M3)
_NULL: Final = np.uint64(0x9AE16A3B2F90404F)
_NAN: Final = np.uint64(0x7FF8000000000000)

_HALF: Final = np.uint64(32)
_ONE: Final = np.uint64(1)
_LAST: Final = np.uint64(63)
_KEEP: Final = np.array([(1 << (8 * kept)) - 1 for kept in range(1, 9)], dtype=np.uint64)
"""Masks that keep the first bytes of a word: the first one, the first two, and so on."""
_CHUNK: Final = 16_384
_SMALL: Final = 1_024
_TEXTS: Final = 4_096
_TEXT_BYTES: Final = 1 << 20
"""The words, the texts and about the bytes of texts that are hashed at a time, so that they stay in the nearest
caches.
"""

_UNIT_NS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_MS: Final = 86_400_000


def hash_columns(columns: Sequence[pa.Array]) -> Hashes:
    """One hash per row over all columns. The order of the columns counts. There must be a column, and all have the same
    length.
    """
    if not columns:
        raise ValueError("a hash needs at least one key column")
    first, *others = columns
    hashes = hash_array(first)
    for other in others:
        hashes = _combine(hashes, hash_array(other))
    return hashes


def channel_of(hashes: Hashes, channels: int) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """The channel of each hash: its upper half, scaled to 0 <= channel < `channels`."""
    if not 0 < channels <= MAX_CHANNELS:
        raise ValueError(f"{channels} channels are not possible: there can be 1 to {MAX_CHANNELS}")
    scaled = hashes >> _HALF
    scaled *= np.uint64(channels)
    scaled >>= _HALF
    return scaled.astype(np.uint8) if channels <= 1 << 8 else scaled.astype(np.uint16)


def hashable(type_: pa.DataType) -> bool:
    """True where values of this type can be hashed: all types but maps, unions and intervals of months."""
    if isinstance(type_, pa.BaseExtensionType):
        return hashable(type_.storage_type)
    if kinds.is_dictionary(type_) or kinds.is_run_end_encoded(type_):
        return hashable(type_.value_type)
    if kinds.is_struct(type_) or _is_list(type_):
        return all(hashable(type_.field(index).type) for index in range(type_.num_fields))
    return kinds.is_null(type_) or _rule(type_) is not None


def one_to_one(type_: pa.DataType) -> bool:
    """True where equal hashes mean equal values, nulls apart: types whose values are one word."""
    return bool(kinds.is_integer(type_) or kinds.is_date32(type_) or kinds.is_boolean(type_))


SETTLED_BYTES: Final = 8
"""The most bytes of a text that is one word: up to it, texts with equal hashes and equal lengths are equal."""


def hash_array(array: pa.Array) -> Hashes:
    """One hash per value."""
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return hash_array(array.storage)
    if kinds.is_dictionary(type_):
        return _dictionary(array)
    if kinds.is_run_end_encoded(type_):
        return hash_array(pc.run_end_decode(array))
    if kinds.is_null(type_):
        return np.full(len(array), _NULL)
    if kinds.is_struct(type_):
        return _with_nulls(_struct(array), array)
    if _is_list(type_):
        return _with_nulls(_mix(_list(array)), array)
    rule = _rule(type_)
    if rule is None:
        raise ExecutionError(f"a value of type {type_} cannot be a hash key", reason="UNSUPPORTED_TYPE")
    return _with_nulls(_mix(rule(array)), array)


def hash_words(words: Hashes, nulls: npt.NDArray[np.bool_] | None) -> Hashes:
    """The result of `hash_array` for values of one word each: integers sign-extended, floats as `_floats` returns
    them.
    """
    hashes = _mix(words)
    if nulls is not None:
        hashes[nulls] = _NULL
    return hashes


def combine_hashes(left: Hashes, right: Hashes) -> Hashes:
    """The hash of two columns from the hash of each, as `hash_columns` combines them."""
    return _combine(left, right)


# ------------------------------------------------------------------------------------------------------- mixing


def _mix(words: Hashes) -> Hashes:
    """Spread each word over all 64 bits, one to one."""
    if len(words) == 1:
        return _mix_one(words.item())
    if len(words) <= _SMALL:
        mixed = words * _M1
        mixed ^= mixed >> _HALF
        mixed *= _M2
        mixed ^= mixed >> _HALF
        return mixed
    mixed = np.empty(len(words), dtype=np.uint64)
    scratch = np.empty(min(len(words), _CHUNK), dtype=np.uint64)
    for start in range(0, len(words), _CHUNK):
        part = mixed[start : start + _CHUNK]
        upper = scratch[: len(part)]
        np.multiply(words[start : start + _CHUNK], _M1, out=part)
        np.right_shift(part, _HALF, out=upper)
        np.bitwise_xor(part, upper, out=part)
        np.multiply(part, _M2, out=part)
        np.right_shift(part, _HALF, out=upper)
        np.bitwise_xor(part, upper, out=part)
    return mixed


def _mix_one(word: int) -> Hashes:
    """`_mix` of a single word, in Python integers: an operation on an array takes several times as long."""
    mixed = word * _FIRST & _WORD
    mixed = (mixed ^ mixed >> 32) * _SECOND & _WORD
    return np.array((mixed ^ mixed >> 32,), dtype=np.uint64)


def _combine(left: Hashes, right: Hashes) -> Hashes:
    if len(left) == 1:
        return _mix_one((left.item() * _THIRD + right.item()) & _WORD)
    return _mix(left * _M3 + right)


def _sequences(words: Hashes, positions: _Numbers, counts: _Numbers, lengths: _Numbers) -> Hashes:
    """A word for each row: the sum of the row's words, each mixed with its position in the row, and of the row's
    length.

    `counts` are the words of each row. It is a sum so that one running total serves rows of all lengths at once.
    """
    totals = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(_mix(words + (positions + 1).astype(np.uint64) * _M3), out=totals[1:])
    ends = np.cumsum(counts)
    sums: Hashes = totals[ends] - totals[ends - counts]
    return sums + lengths.astype(np.uint64)


def _with_nulls(hashes: Hashes, array: pa.Array) -> Hashes:
    if array.null_count:
        hashes[~_valid(array)] = _NULL
    return hashes


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


# ---------------------------------------------------------------------------------------- values of fixed width


def _fixed(array: pa.Array, dtype: str, parts: int = 1) -> npt.NDArray[Any]:
    """The values of fixed width in place, each of `parts` parts. The value of a null is arbitrary."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, dtype=dtype)
    offset = array.offset * parts * np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(array) * parts, offset=offset)


def _booleans(array: pa.Array) -> Hashes:
    values: npt.NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
    return values.astype(np.uint64)


def _signed(array: pa.Array) -> Hashes:
    return _fixed(array, f"<i{array.type.bit_width // 8}").astype(np.int64, copy=False).view(np.uint64)


def _unsigned(array: pa.Array) -> Hashes:
    return _fixed(array, f"<u{array.type.bit_width // 8}").astype(np.uint64, copy=False)


def _floats(array: pa.Array) -> Hashes:
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = _fixed(array, f"<f{array.type.bit_width // 8}").astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    values.view(np.uint64)[np.isnan(values)] = _NAN
    return values.view(np.uint64)


def _days(array: pa.Array) -> Hashes:
    """The days of dates that are stored in milliseconds."""
    return (_signed(array).view(np.int64) // _DAY_MS).view(np.uint64)


def _nanoseconds(array: pa.Array) -> Hashes:
    """Nanoseconds modulo 2**64. Equal times stay equal under the multiplication."""
    return _signed(array) * np.uint64(_UNIT_NS[array.type.unit])


def _decimals(array: pa.Array) -> Hashes:
    """Each decimal as odd * 2**exponent, with its fives modulo 2**64, so that trailing zeros have no influence."""
    scale = array.type.scale
    limbs = _limbs(array)
    exponents = np.full(len(array), -scale, dtype=np.int64)
    for _ in limbs[1:]:
        empty = limbs[0] == 0
        for lower, upper in itertools.pairwise(limbs):
            np.copyto(lower, upper, where=empty)
        exponents[empty] += 64
    low, high = limbs[0], limbs[1]
    zeros = np.bitwise_count((low & (~low + _ONE)) - _ONE).astype(np.uint64)  # below the lowest one
    odd = (low >> (zeros & _LAST)) | ((high << _ONE) << (_LAST - (zeros & _LAST)))
    fives = pow(5, -scale, 1 << 64)
    words = odd * np.uint64(fives) + (exponents.view(np.uint64) + zeros) * _M3
    words[low == 0] = 0
    return words


def _limbs(array: pa.Array) -> list[Hashes]:
    """The unscaled values in parts of 64 bits, lowest first: at least two parts."""
    width = array.type.bit_width // 64
    if width > 1:
        parts = _fixed(array, "<u8", width).reshape(-1, width)
        return [parts[:, index].astype(np.uint64) for index in range(width)]
    low = _signed(array).copy()
    return [low, (low.view(np.int64) >> 63).view(np.uint64)]


# -------------------------------------------------------------------------------------- values of varying width


def _bytes(array: pa.Array) -> Hashes:
    offsets, data = _bytes_of(array)
    words = np.empty(len(array), dtype=np.uint64)
    step = max(1, min(_TEXTS, _TEXT_BYTES * len(array) // max(1, len(data))))
    for start in range(0, len(array), step):
        part = offsets[start : start + step + 1]
        words[start : start + step] = _neighbours(part - part[0], data[part[0] : part[-1]])
    return words


def _neighbours(offsets: _Numbers, data: npt.NDArray[np.uint8]) -> Hashes:
    """The hashes of neighbouring texts, of few bytes at a time: to hash texts takes ten times their bytes."""
    if len(data) <= 2 * _TEXT_BYTES:
        return _texts(offsets, data)
    if len(offsets) == 2:
        return _long_text(data)
    middle = len(offsets) // 2
    bound = offsets[middle]
    return np.concatenate(
        (_neighbours(offsets[: middle + 1], data[:bound]), _neighbours(offsets[middle:] - bound, data[bound:]))
    )


def _long_text(data: npt.NDArray[np.uint8]) -> Hashes:
    """The hash of one text, as `_texts` and `_sequences` describe it, word by word in parts."""
    total = np.full(1, len(data), dtype=np.uint64)
    for start in range(0, len(data), _TEXT_BYTES):
        part = data[start : start + _TEXT_BYTES]
        padded = np.zeros(-(-len(part) // 8) * 8, dtype=np.uint8)
        padded[: len(part)] = part
        positions = np.arange(start // 8 + 1, start // 8 + 1 + len(padded) // 8, dtype=np.uint64)
        total += _mix(padded.view("<u8") + positions * _M3).sum(dtype=np.uint64)
    return total


def _texts(offsets: _Numbers, data: npt.NDArray[np.uint8]) -> Hashes:
    """The hashes of texts: eight bytes a word, the first byte the lowest, the last word filled up with zeros."""
    lengths = np.diff(offsets)
    padded = np.zeros(len(data) + 8, dtype=np.uint8)
    padded[: len(data)] = data
    at_every_byte = np.ndarray(len(data) + 1, dtype="<u8", buffer=padded, strides=(1,))
    if lengths.max() <= SETTLED_BYTES:
        sums = _mix((at_every_byte[offsets[:-1]] & _KEEP[(lengths - 1) & 7]) + _M3)
        sums[lengths == 0] = 0
        return sums + lengths.astype(np.uint64)
    counts = (lengths + 7) >> 3
    ends = np.cumsum(counts)
    positions = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    words = at_every_byte[np.repeat(offsets[:-1], counts) + 8 * positions].astype(np.uint64, copy=False)
    filled = counts > 0
    words[ends[filled] - 1] &= _KEEP[(lengths[filled] - 1) & 7]
    return _sequences(words, positions, counts, lengths)


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The offsets of the values, and the bytes that hold all values. Nulls may have bytes, too."""
    type_ = array.type
    if kinds.is_fixed_size_binary(type_):
        data = _fixed(array, "u1", type_.byte_width)
        return np.arange(len(array) + 1, dtype=np.int64) * type_.byte_width, data
    if kinds.is_string_view(type_) or kinds.is_binary_view(type_):
        array = array.cast(pa.large_binary())
    width = 8 if kinds.is_large_binary(array.type) or kinds.is_large_string(array.type) else 4
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array) or offsets_buffer is None or data_buffer is None:
        return np.zeros(len(array) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    offsets = np.frombuffer(offsets_buffer, f"<i{width}", len(array) + 1, array.offset * width).astype(np.int64)
    return offsets - offsets[0], np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]


def _list(array: pa.Array) -> Hashes:
    lengths = pc.list_value_length(array).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    hashes = hash_array(array.flatten())
    return _sequences(hashes, np.arange(len(hashes)) - starts, lengths, lengths)


def _struct(array: pa.Array) -> Hashes:
    fields = array.flatten()
    return hash_columns(fields) if fields else np.zeros(len(array), dtype=np.uint64)


def _dictionary(array: pa.Array) -> Hashes:
    if len(array.dictionary) > len(array):
        return hash_array(array.dictionary_decode())
    hashes = np.append(hash_array(array.dictionary), _NULL)
    null = len(array.dictionary)
    indices: _Numbers = array.indices.cast(pa.int64()).fill_null(null).to_numpy(zero_copy_only=False)
    return hashes[indices]


# -------------------------------------------------------------------------------------------------------- types


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        kinds.is_list(type_)
        or kinds.is_large_list(type_)
        or kinds.is_fixed_size_list(type_)
        or kinds.is_list_view(type_)
        or kinds.is_large_list_view(type_)
    )


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        kinds.is_string(type_)
        or kinds.is_large_string(type_)
        or kinds.is_string_view(type_)
        or kinds.is_binary(type_)
        or kinds.is_large_binary(type_)
        or kinds.is_binary_view(type_)
        or kinds.is_fixed_size_binary(type_)
    )


def _is_time(type_: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(type_) or kinds.is_time(type_) or kinds.is_duration(type_))


_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Hashes]], ...]] = (
    (kinds.is_signed_integer, _signed),
    (kinds.is_unsigned_integer, _unsigned),
    (_is_bytes, _bytes),
    (kinds.is_floating, _floats),
    (kinds.is_decimal, _decimals),
    (kinds.is_date32, _signed),
    (kinds.is_date64, _days),
    (_is_time, _nanoseconds),
    (kinds.is_boolean, _booleans),
)
"""The functions that make one word of each value, by type. The words are mixed afterwards."""


def _rule(type_: pa.DataType) -> Callable[[pa.Array], Hashes] | None:
    return next((words for is_kind, words in _RULES if is_kind(type_)), None)


_KINDS: Final = (
    (kinds.is_integer, "whole numbers"),
    (kinds.is_floating, "floats"),
    (kinds.is_decimal, "decimals"),
    (kinds.is_date, "dates"),
    (kinds.is_time, "times"),
    (kinds.is_timestamp, "timestamps"),
    (kinds.is_duration, "durations"),
    (kinds.is_fixed_size_binary, "binary"),
)


def hash_kind(type_: pa.DataType) -> str:
    """The family of a type: types of one family hash equal values alike."""
    type_ = plain(type_)
    return next((name for of_kind, name in _KINDS if of_kind(type_)), str(type_))

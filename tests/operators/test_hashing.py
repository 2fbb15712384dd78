"""The hash: equal for equal values however they are stored, well spread, and the same for ever.

`naive` is the description in docs/exchanges.md, a value at a time.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
import tracemalloc
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays.hashing import channel_of, hash_array, hash_columns, hashable
from tidegate.proto.errors import ExecutionError

M = 1 << 64
M1, M2, M3, NULL = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x9AE16A3B2F90404F


def mix(word: int) -> int:
    word = word * M1 % M
    word ^= word >> 32
    word = word * M2 % M
    return word ^ (word >> 32)


def naive(value: object) -> int:
    match value:
        case None:
            return NULL
        case bool() | int():
            return mix(int(value) % M)
        case float() if math.isnan(value):
            return mix(0x7FF8000000000000)
        case float():
            return mix(int.from_bytes(struct.pack("<d", value + 0.0), "little"))
        case Decimal():
            return mix(decimal_word(value))
        case str():
            return naive(value.encode())
        case bytes():
            words = [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value), 8)]
            return mix(sequence_word(words, len(value)))
        case list():
            return mix(sequence_word([naive(item) for item in value], len(value)))
        case dict():
            return naive_columns(list(value.values()))
    raise NotImplementedError(type(value))


def decimal_word(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = int("".join(map(str, digits))) * (-1 if sign else 1), -int(exponent)
    if not unscaled:
        return 0
    zeros = (unscaled & -unscaled).bit_length() - 1
    return ((unscaled >> zeros) * pow(5, -scale, M) + (zeros - scale) * M3) % M


def sequence_word(words: Sequence[int], length: int) -> int:
    return (sum(mix((word + (position + 1) * M3) % M) for position, word in enumerate(words)) + length) % M


def naive_columns(values: Sequence[object]) -> int:
    first, *others = map(naive, values)
    for other in others:
        first = mix((first * M3 + other) % M)
    return first


def one(value: object, type_: pa.DataType) -> int:
    """The hash of the value, in the middle of others."""
    array = pa.array([None, value, None, value], type=type_).slice(1, 2)
    return int(hash_array(array)[0])


LITERALS: list[tuple[object, pa.DataType, int]] = [
    (0, pa.int64(), 0x0000000000000000),
    (1, pa.int64(), 0xDD623BBC9D5B9FA8),
    (-1, pa.int64(), 0x0021387C682FB71F),
    (2**64 - 2, pa.uint64(), 0xC2F51F3535071520),
    (True, pa.bool_(), 0xDD623BBC9D5B9FA8),
    (1.0, pa.float64(), 0x8BF62E3223A62E32),
    (math.nan, pa.float64(), 0xD4EAEF5620C2EF56),
    (math.inf, pa.float32(), 0x95EB6906FDBB6906),
    (Decimal("5.00"), pa.decimal128(9, 2), 0x08A728BA6737F950),
    (Decimal("-0.075"), pa.decimal64(9, 3), 0xD166F68181A0041C),
    (Decimal(10**40 + 1), pa.decimal256(50, 0), 0x6F768ED16CAD29C5),
    ("", pa.string(), 0x0000000000000000),
    ("a", pa.string(), 0xA19E817B7DC3E3EE),
    ("tidegate", pa.string(), 0x37FC5EB408DC53B7),
    ("a barrier is where it ends", pa.string(), 0xD4A848821C6E4D8F),
    (b"\0", pa.binary(), 0x2EA74C4CC7CA2251),
    (dt.date(2026, 1, 1), pa.date32(), 0x48B4D42D84235D1F),
    (dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC), pa.timestamp("ms", "UTC"), 0x5B2F40198C992E02),
    (dt.time(12, 0, 1), pa.time32("s"), 0x87C40B941E027720),
    (dt.timedelta(seconds=90), pa.duration("us"), 0x5265DABD024CEB94),
    ([], pa.list_(pa.int8()), 0x0000000000000000),
    ([1, None, 2], pa.list_(pa.int8()), 0x0FA5D8CE5FFF82BA),
    ({"a": 1, "b": "x"}, pa.struct({"a": pa.int8(), "b": pa.string()}), 0x63B6EA063FC662ED),
    (None, pa.int64(), 0x9AE16A3B2F90404F),
]


@pytest.mark.parametrize(("value", "type_", "expected"), LITERALS, ids=str)
def test_a_hash_never_changes(value: object, type_: pa.DataType, expected: int) -> None:
    assert one(value, type_) == expected


def test_a_hash_of_several_columns_never_changes() -> None:
    columns = [pa.array([7, None]), pa.array(["a", "b"]), pa.array([1.5, -0.0])]
    assert hash_columns(columns).tolist() == [0x2C8822D888C5BA41, 0xF7B65C2FB8EE75A9]
    assert hash_columns(columns).tolist() == [naive_columns(row) for row in [(7, "a", 1.5), (None, "b", 0.0)]]


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), *TEXTS, pa.run_end_encoded(pa.int32(), pa.string())]
FAMILIES = {
    "integers": (5, INTEGERS),
    "floats": (-1.5, [pa.float16(), pa.float32(), pa.float64(), pa.dictionary(pa.int32(), pa.float64())]),
    "decimals": (
        Decimal("-5.5"),
        [
            *[pa.decimal32(5, 1), pa.decimal32(9, 5), pa.decimal64(18, 3), pa.decimal128(38, 1)],
            *[pa.decimal128(38, 30), pa.decimal256(76, 2), pa.decimal256(76, 70)],
        ],
    ),
    "texts": ("straße", BINARIES),
    "bytes": ("sixteen bytes ok", [*BINARIES, pa.binary(16)]),
    "empty texts": ("", BINARIES),
    "dates": (dt.date(1969, 7, 20), [pa.date32(), pa.date64()]),
    "instants": (
        dt.datetime(1969, 7, 20, 20, 17, 40, tzinfo=dt.UTC),
        [pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")],
    ),
    "times": (dt.time(12, 0, 1), [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]),
    "durations": (dt.timedelta(hours=-1), [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]),
    "lists": (
        [1, None, 2],
        [
            *[pa.list_(pa.int8()), pa.large_list(pa.int64()), pa.list_(pa.uint8(), 3)],
            *[pa.list_view(pa.int64()), pa.large_list_view(pa.int16())],
        ],
    ),
    "structs": ({"a": 1, "b": "x"}, [pa.struct({"a": pa.int8(), "b": pa.string()})]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_value_hashes_alike_however_it_is_stored(family: str) -> None:
    value, types = FAMILIES[family]
    assert {one(value, type_) for type_ in types} == {one(value, types[0])}


def test_the_names_of_fields_and_time_zones_do_not_count() -> None:
    assert one({"x": 1}, pa.struct({"x": pa.int64()})) == one({"y": 1}, pa.struct({"y": pa.int64()}))
    assert one(0, pa.timestamp("us")) == one(0, pa.timestamp("us", "Asia/Tokyo"))


def test_both_zeros_hash_alike_and_so_do_all_nans() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], dtype=np.uint64).view(np.float64)
    assert len(set(hash_array(pa.array(nans)).tolist())) == 1
    assert one(-0.0, pa.float64()) == one(0.0, pa.float32()) == 0


@pytest.mark.parametrize(
    "type_", [*INTEGERS, *BINARIES, pa.null(), pa.bool_(), pa.list_(pa.int8()), pa.decimal128(9, 2)]
)
def test_a_null_is_one_value_whatever_its_type(type_: pa.DataType) -> None:
    assert one(None, type_) == NULL


def test_what_lies_below_a_null_does_not_count() -> None:
    validity = pa.array([True, False, True]).buffers()[1]
    hidden = pa.Array.from_buffers(pa.string(), 3, [validity, *pa.array(["a", "hidden", "b"]).buffers()[1:]])
    assert hash_array(hidden).tolist() == hash_array(pa.array(["a", None, "b"])).tolist()


def test_a_null_in_a_dictionary_is_a_null() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", None, "b"]))
    assert hash_array(array).tolist() == hash_array(pa.array(["a", None, None, "b"])).tolist()


def test_a_uuid_hashes_as_its_bytes() -> None:
    stored = pa.array([bytes(range(16))], pa.binary(16))
    assert hash_array(pa.ExtensionArray.from_storage(pa.uuid(), stored)).tolist() == hash_array(stored).tolist()


def test_the_order_of_columns_counts() -> None:
    one, two = pa.array([1]), pa.array([2])
    assert hash_columns([one, two])[0] != hash_columns([two, one])[0]


@pytest.mark.parametrize(
    "type_",
    [pa.map_(pa.int8(), pa.int8()), pa.month_day_nano_interval(), pa.list_(pa.map_(pa.int8(), pa.int8()))],
    ids=str,
)
def test_maps_and_intervals_of_months_are_refused_by_name(type_: pa.DataType) -> None:
    assert not hashable(type_)
    with pytest.raises(ExecutionError, match="cannot be a hash key"):
        hash_array(pa.array([None], type=type_) if not pa.types.is_list(type_) else pa.array([[None]], type=type_))


def test_no_rows_have_no_hashes() -> None:
    for type_ in (pa.int64(), pa.string(), pa.list_(pa.string()), pa.decimal128(9, 2), pa.binary(3), pa.bool_()):
        assert hash_array(pa.array([], type=type_)).tolist() == []


# ----------------------------------------------------------------------------------------------- against the naive


def same(values: Sequence[object], type_: pa.DataType) -> None:
    array = pa.array([values[0], *values], type=type_).slice(1)
    assert hash_array(array).tolist() == [naive(value) for value in array.to_pylist()]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_as_described(values: list[int | None]) -> None:
    same(values, pa.int64())


@given(st.lists(st.none() | st.floats(), min_size=1))
def test_floats_as_described(values: list[float | None]) -> None:
    same(values, pa.float64())


@given(st.lists(st.none() | st.binary(max_size=40), min_size=1))
def test_bytes_as_described(values: list[bytes | None]) -> None:
    same(values, pa.binary())


def test_many_and_long_texts_hash_as_each_by_itself() -> None:
    texts = pa.array(["x" * (position % 97) for position in range(10_000)] + ["y" * 3_000_000, None, "z"])
    hashes = hash_array(texts)
    for position in (0, 4_095, 4_096, 9_999, 10_000, 10_001, 10_002):
        assert hashes[position] == hash_array(texts.slice(position, 1))[0]


@pytest.mark.parametrize("length", [(2 << 20) + 1, (3 << 20) - 1, 3 << 20])
def test_texts_of_megabytes_hash_as_described_with_little_memory_beside_them(length: int) -> None:
    long = bytes(range(256)) * (length // 256 + 1)
    values = [b"short", long[:length], None, b"", long[1 : length + 1], b"y" * 100]
    array = pa.array(values, pa.binary())
    tracemalloc.start()
    hashes = hash_array(array)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert hashes.tolist() == [naive(value) for value in values]
    assert most < 24 << 20


@given(st.lists(st.none() | st.lists(st.none() | st.text(max_size=10), max_size=5), min_size=1))
def test_lists_as_described(values: list[list[str | None] | None]) -> None:
    same(values, pa.list_(pa.string()))


@given(st.lists(st.integers(-(10**60), 10**60), min_size=1), st.integers(0, 15))
def test_decimals_as_described_and_without_their_trailing_zeros(unscaled: list[int], zeros: int) -> None:
    with decimal.localcontext(prec=80):
        values = [Decimal(number).scaleb(-10) for number in unscaled]
        wider = pa.array(values, pa.decimal256(75 if zeros < 15 else 76, 10 + min(zeros, 15)))
        assert hash_array(wider).tolist() == [naive(value) for value in values]


# --------------------------------------------------------------------------------------------------- distribution

KEYS = {
    "sequential": np.arange(40_000),
    "negative": -np.arange(40_000),
    "stride 64": np.arange(40_000) * 64,
    "stride 2**32": np.arange(40_000) << 32,
    "stride 2**44": np.arange(40_000) << 44,
    "stride 1000003": np.arange(40_000) * 1_000_003,
    "nanoseconds": np.arange(40_000) * 86_400_000_000_000,
    "floats": np.arange(40_000).astype(np.float64),
    "short strings": np.arange(40_000).astype(str),
    "padded strings": np.char.zfill(np.arange(40_000).astype(str), 20),
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("channels", [2, 3, 7, 8, 16, 64])
def test_keys_spread_evenly_over_channels(keys: str, channels: int) -> None:
    hashes = hash_array(pa.array(KEYS[keys]))
    for used in (channel_of(hashes, channels), hashes % np.uint64(channels)):
        counts = np.bincount(used.astype(np.int64), minlength=channels)
        expected = len(hashes) / channels
        assert abs(counts - expected).max() < 6 * math.sqrt(expected)


def test_pairs_of_small_integers_do_not_collide() -> None:
    left, right = (axis.ravel() for axis in np.meshgrid(np.arange(300), np.arange(300)))
    assert len(np.unique(hash_columns([pa.array(left), pa.array(right)]))) == 90_000


@pytest.mark.parametrize(("channels", "dtype"), [(1, "u1"), (256, "u1"), (257, "u2"), (65_536, "u2")])
def test_a_channel_is_as_narrow_as_the_number_of_channels(channels: int, dtype: str) -> None:
    channel_numbers = channel_of(np.array([0, 1 << 63, M - 1], dtype=np.uint64), channels)
    assert channel_numbers.dtype == np.dtype(dtype)
    assert channel_numbers.tolist() == [0, channels // 2, channels - 1]


@pytest.mark.parametrize("channels", [0, 65_537])
def test_a_wrong_number_of_channels_is_refused(channels: int) -> None:
    with pytest.raises(ValueError, match="1 to 65536"):
        channel_of(np.zeros(1, dtype=np.uint64), channels)

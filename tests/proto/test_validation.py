"""The check of rows from outside finds what Arrow's full check finds."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from tidegate.proto.arrow import utf8, validation
from tidegate.proto.arrow.validation import validated

TEXT = pa.array(["ab", None, "", "cdefghijklmnopqrstuvwxyz", "äöü", "z"])
ARRAYS = [
    TEXT,
    TEXT.cast(pa.large_string()),
    pa.array(["plain text", "and more of it", "0123456789"]),
    pa.array([b"ab", None, b"\xff\x00"]),
    pa.array([b"ab", None, b"\xff\x00"], pa.large_binary()),
    TEXT.cast(pa.string_view()),
    TEXT.dictionary_encode(),
    pa.array([1, None, 3]),
    pa.array([True, None, False]),
    pa.array([[1.5, None], None, [], [2.5, 3.5]]),
    pa.array([[1, None], None, [], [2, 3]], pa.large_list(pa.int16())),
    pa.array([dt.date(2024, 2, 29), None], pa.date64()),
    pa.array([dt.time(1, 2), None], pa.time64("us")),
    pa.array([decimal.Decimal("1.10"), None], pa.decimal128(5, 2)),
    pa.array([["a", None], None, [], ["bc", "def"]]),
    pa.array([[["a"]], None, [[], ["bc", "def"]]], pa.large_list(pa.list_(pa.string()))),
    pa.array([["a", "b"], None], pa.list_(pa.string(), 2)),
    pa.array([{"s": "a", "l": [1]}, None, {"s": "b", "l": [2, 3]}]),
    pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
    pa.array(["a", "b", None]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
]


def rebuilt(array: pa.Array, at: list[int], byte: int, position: int) -> pa.Array:
    """The array with a byte changed: of the buffer that `at` leads to, through children."""
    buffers = array.buffers()[: 1 + _own(array.type)]
    children = _children(array)
    if children and at and at[0] % 2:
        which = at[0] // 2 % len(children)
        children[which] = rebuilt(children[which], at[1:], byte, position)
    else:
        present = [number for number, buffer in enumerate(buffers) if buffer is not None and buffer.size]
        assume(bool(present))
        number = present[(at[0] if at else 0) // 2 % len(present)]
        changed = bytearray(buffers[number].to_pybytes())
        changed[position % len(changed)] = byte
        buffers[number] = pa.py_buffer(bytes(changed))
    if pa.types.is_dictionary(array.type):
        indices = pa.Array.from_buffers(array.type.index_type, len(array), buffers, array.null_count)
        return pa.DictionaryArray.from_arrays(indices, children[0], safe=False)
    try:
        return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, 0, children or None)
    except pa.ArrowInvalid:  # its outermost shape, which the constructor looks at
        reject()


def _own(type_: pa.DataType) -> int:
    """How many buffers an array has behind its validity, without its children's."""
    if pa.types.is_struct(type_) or pa.types.is_fixed_size_list(type_):
        return 0
    text = pa.types.is_string(type_) or pa.types.is_binary(type_)
    large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
    return 2 if text or large else 2 if pa.types.is_string_view(type_) else 1


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(number) for number in range(array.type.num_fields)]
    if pa.types.is_dictionary(array.type):
        return [array.dictionary]
    if pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        return [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    return [array.values] if pa.types.is_nested(array.type) else []


def is_refused(batch: pa.RecordBatch) -> bool:
    try:
        validated(batch)
    except pa.ArrowInvalid:
        return True
    return False


def few_are(values: int, patched: pytest.MonkeyPatch) -> None:
    """Let Arrow check columns of up to so many values itself."""
    for name in ("_FEW", "_FEW_OFFSETS"):
        patched.setattr(validation, name, values)


@given(
    st.sampled_from(ARRAYS),
    st.lists(st.integers(0, 7), max_size=3),
    st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xC3, 0xFF]),
    st.integers(0, 200),
)
def test_what_arrow_finds_in_damaged_arrays_is_found(array: pa.Array, at: list[int], byte: int, position: int) -> None:
    batch = pa.record_batch({"x": rebuilt(array, at, byte, position)})
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        refused = True
    else:
        refused = False
    for few in (1 << 20, -1):  # with Arrow's own check of few values, and without
        with pytest.MonkeyPatch.context() as patched:
            few_are(few, patched)
            assert is_refused(batch) is refused


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.type))
@pytest.mark.parametrize("few", [1 << 20, -1], ids=["few", "many"])
def test_sound_rows_and_slices_of_them_pass(array: pa.Array, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few_are(few, monkeypatch)
    batch = pa.record_batch({"x": array})
    for start in range(len(array) + 1):
        for length in range(len(array) + 1 - start):
            assert validated(batch.slice(start, length)).num_rows == length


@pytest.mark.parametrize("make", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_the_least_number_of_a_decimals_bits_has_too_many_digits(make: Callable[[int], pa.DataType]) -> None:
    """Arrow's own check takes it in every precision: its absolute value overflows."""
    type_ = make(5)
    width = type_.byte_width
    bits = b"".join(number.to_bytes(width, "little", signed=True) for number in (7, -(1 << (8 * width - 1)), -7))
    least = pa.Array.from_buffers(type_, 3, [None, pa.py_buffer(bits)])
    lists = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), least)
    maps = pa.MapArray.from_arrays(pa.array([0, 3], pa.int32()), pa.array([1, 2, 3]), least)
    for array in (least, least.slice(1, 1), lists, maps):
        assert is_refused(pa.record_batch({"x": array}))
    behind_null = pa.Array.from_buffers(type_, 3, [pa.py_buffer(b"\x05"), pa.py_buffer(bits)])
    for array in (least.slice(2), least.slice(0, 1), behind_null):
        assert not is_refused(pa.record_batch({"x": array}))


def test_tables_are_checked_chunk_by_chunk() -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    assert validated(pa.table({"x": TEXT})).num_rows == len(TEXT)
    with pytest.raises(pa.ArrowInvalid, match="UTF8"):
        validated(pa.table({"x": pa.chunked_array([TEXT, bad])}))


CHARACTERS = ["\x00", "a", "é", "߿", "ࠀ", "中", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff"]
NO_CHARACTERS = [
    *(b"\x80", b"\xbf", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x98"),  # cut
    *(b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf"),  # longer than they need be
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf"),  # halves of pairs
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xfe", b"\xff"),  # beyond the last one
]
RIGHT = st.sampled_from([*(character.encode() for character in CHARACTERS), b"words"])
WRONG = st.sampled_from(NO_CHARACTERS) | st.binary(max_size=4)


@given(st.data(), st.sampled_from([pa.string(), pa.large_string()]), st.integers(4, 40))
def test_text_is_checked_as_arrow_checks_it(data: st.DataObject, type_: pa.DataType, block: int) -> None:
    parts = [*data.draw(st.lists(RIGHT, max_size=8)), *data.draw(st.lists(WRONG, max_size=1))]
    text = b"".join(data.draw(st.permutations(parts)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=12)))
    missing = data.draw(st.lists(st.booleans(), min_size=len(cuts) - 1, max_size=len(cuts) - 1))
    width = np.int32 if type_ == pa.string() else np.int64
    bits = pa.array([not is_missing for is_missing in missing]).buffers()[1] if any(missing) else None
    buffers = [bits, pa.py_buffer(np.array(cuts, width)), pa.py_buffer(text)]
    array = pa.Array.from_buffers(type_, len(cuts) - 1, buffers, sum(missing))
    start = data.draw(st.integers(0, len(array)))
    batch = pa.record_batch({"x": array.slice(start, data.draw(st.integers(0, len(array))))})
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        refused = True
    else:
        refused = False
    with pytest.MonkeyPatch.context() as patched:  # no text is too short for blocks, nor has too few values
        patched.setattr(utf8, "_BLOCK", block)
        patched.setattr(validation, "_FEW", -1)
        assert is_refused(batch) is refused


def python_decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(RIGHT | WRONG, max_size=12), st.sampled_from([8, 16, 64]))
def test_text_is_utf8_where_python_decodes_it(parts: list[bytes], block: int) -> None:
    text = b"".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(utf8, "_BLOCK", block)
        assert utf8.is_utf8(np.frombuffer(text, np.uint8)) is python_decodes(text)


def test_every_pair_of_bytes_is_judged_as_python_judges_it() -> None:
    for first in range(256):
        for second in range(0x70, 0xD0):
            for rest in (b"", b"\x80", b"\x80\x80", b"a"):
                text = bytes([first, second]) + rest
                assert utf8.is_utf8(np.frombuffer(text, np.uint8)) is python_decodes(text), text


@pytest.mark.parametrize("character", ["é", "中", "😀"])
def test_a_character_of_which_two_values_have_parts_is_refused(character: str) -> None:
    text = b"words " * 40 + character.encode() + b" words" * 40
    for cut in range(240, 241 + len(character.encode())):
        offsets = pa.py_buffer(np.array([0, 100, cut, cut, 300, 300], np.int32))
        array = pa.Array.from_buffers(pa.string(), 5, [None, offsets, pa.py_buffer(text)])
        assert validation.is_proved_right(array) is not (240 < cut < 240 + len(character.encode()))
        assert is_refused(pa.record_batch({"x": array})) is (240 < cut < 240 + len(character.encode()))


@pytest.mark.parametrize("word", ["coffee", "café", "кофе", "咖啡", "☕😀"])
def test_text_of_any_script_is_proved_right_as_a_whole(word: str) -> None:
    assert validation.is_proved_right(pa.array([word, "coffee", None, ""] * 2_000))


VIEWED = pa.Array.from_buffers(
    pa.string_view(),
    3_000,
    [None, pa.py_buffer(struct.pack("<i4sii", 1 << 20, b"xxxx", 0, 0) * 3_000), pa.py_buffer(b"x" * (1 << 20))],
)
"""3 GB of text, in values that share 1 MB."""


@pytest.mark.parametrize(
    "array",
    [
        VIEWED,
        VIEWED.slice(500),
        pa.StructArray.from_arrays([VIEWED], ["v"]),
        pa.ListArray.from_arrays(pa.array([0, 3_000], pa.int32()), VIEWED),
        pa.FixedSizeListArray.from_arrays(VIEWED, 2),
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), VIEWED),
        pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 3_001), pa.int32()), VIEWED),
        pa.MapArray.from_arrays(pa.array([0, 3_000], pa.int32()), VIEWED, VIEWED),
        pa.ListViewArray.from_arrays(pa.array([0], pa.int32()), pa.array([3_000], pa.int32()), VIEWED),
    ],
    ids=lambda array: str(array.type)[:30],
)
def test_views_that_share_bytes_are_refused_before_each_of_them_is_checked(array: pa.Array) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"views has [\d,]+ bytes, with those that values share"):
        validated(pa.record_batch([array], ["v"]))

"""Tables of the same rows have the same digest, wherever their values lie in memory, and others another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.training.sources.table_digest import content

PAIR = pa.list_(pa.int64(), 2)
HIDDEN = [True, False]
ROWS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [1, None, 3, 4, None]),
    (pa.bool_(), [True, False, True, None, True]),
    (pa.float32(), [0.5, None, 1.5]),
    (pa.string(), ["a", None, "ccc", ""]),
    (pa.string_view(), ["a", None, "c" * 40, ""]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b", "a"]),
    (pa.list_(pa.int32()), [[1], None, [], [2, None, 3]]),
    (pa.large_list(pa.struct({"a": pa.int8()})), [[{"a": 1}], None, [None, {"a": 2}]]),
    (PAIR, [[1, 2], None, [3, None]]),
    (pa.list_(pa.int64(), 0), [[], [], []]),
    (pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]),
    (pa.null(), [None, None]),
]


def digest(*chunks: pa.Array) -> bytes:
    return content(pa.table({"column": pa.chunked_array(list(chunks))}))


@pytest.mark.parametrize(("type_", "rows"), ROWS, ids=[str(type_) for type_, _ in ROWS])
def test_a_part_of_a_table_has_the_digest_of_its_rows(type_: pa.DataType, rows: list[Any]) -> None:
    around = list(reversed(rows))
    part = pa.array([*around, *rows, *around], type_).slice(len(around), len(rows))
    whole = digest(pa.array(rows, type_))
    assert digest(part) == whole
    assert digest(part.slice(0, 1), part.slice(1)) == whole
    if rows != around:
        assert digest(pa.array(around, type_)) != whole


@pytest.mark.parametrize(
    ("hides", "plain"),
    [
        (
            pa.Array.from_buffers(
                pa.int64(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([7, 8], np.int64).tobytes())]
            ),
            pa.array([None, 8]),
        ),
        (
            pa.Array.from_buffers(
                pa.string(),
                2,
                [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"ab")],
            ),
            pa.array([None, "b"]),
        ),
        (pa.ListArray.from_arrays([0, 2, 3], pa.array([1, 2, 3]), mask=pa.array(HIDDEN)), pa.array([None, [3]])),
        (
            pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4]), 2, mask=pa.array(HIDDEN)),
            pa.array([None, [3, 4]], PAIR),
        ),
        (
            pa.StructArray.from_arrays([pa.array([1, 2])], ["a"], mask=pa.array(HIDDEN)),
            pa.array([None, {"a": 2}]),
        ),
        (
            pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["b", "a"])),
            pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "b"])),
        ),
    ],
    ids=["number", "text", "list", "pair", "struct", "dictionary"],
)
def test_what_lies_below_nulls_and_in_dictionaries_does_not_count(hides: pa.Array, plain: pa.Array) -> None:
    assert hides.equals(plain) or hides.to_pylist() == plain.to_pylist()
    assert digest(hides) == digest(plain)


def test_a_type_and_the_schema_count() -> None:
    kinds = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
    assert len({digest(pa.array(["a"], type_)) for type_ in kinds}) == len(kinds)

"""Texts at any depth of a column are changed, and everything else stays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidegate.operators.arrays.texts_inside import has_texts, texts_in, with_texts

COLUMNS = {
    "text": pa.array(["a", None, "", "b", "c"]),
    "binary": pa.array([b"a", None, b"", b"b", b"c"], pa.binary()),
    "list": pa.array([["a", None], None, [], ["b", "c"], ["d"]]),
    "fixed list": pa.array([["a", None], None, ["b", "c"], ["d", "e"], None], pa.list_(pa.string(), 2)),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": 2, "y": None}, {"x": None, "y": "b"}, {"x": 3, "y": "c"}]),
    "map": pa.array([[("a", "b")], None, [], [("c", None), ("d", "e")], [("f", "g")]], pa.map_("string", "string")),
    "list of structs": pa.array([[{"x": "a"}, None], None, [], [{"x": None}], [{"x": "b"}, {"x": "c"}]]),
    "map of lists": pa.array(
        [[("a", ["b"])], None, [("c", None)], [], [("d", ["e", "f"])]], pa.map_("string", pa.list_(pa.string()))
    ),
}


def doubled(array: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(array, array, pa.scalar(b"" if pa.types.is_binary(array.type) else ""))


def twice(value: object) -> object:
    match value:
        case str() | bytes():
            return value + value
        case list() | tuple():
            return type(value)(map(twice, value))
        case dict():
            return {key: twice(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(("start", "length"), [(0, 5), (1, 4), (2, 2), (3, 0), (1, 1)])
def test_each_text_is_changed_and_nothing_else(name: str, start: int, length: int) -> None:
    column = COLUMNS[name].slice(start, length)
    changed = with_texts(column, doubled)
    changed.validate(full=True)
    assert changed.type == column.type
    assert changed.to_pylist() == twice(column.to_pylist())


def test_only_texts_of_the_rows_of_a_slice_are_looked_at() -> None:
    column = pa.array([["a"] * 1_000, ["b"], ["c"] * 1_000]).slice(1, 1)
    assert [texts.to_pylist() for texts in texts_in(column)] == [["b"]]


@pytest.mark.parametrize("type_", [pa.int64(), pa.list_(pa.int64()), pa.struct([("x", pa.date32())])], ids=str)
def test_a_column_without_texts_is_given_back_as_it_is(type_: pa.DataType) -> None:
    column = pa.nulls(3, type_)
    assert not has_texts(type_)
    assert with_texts(column, doubled) is column

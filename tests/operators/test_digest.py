from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from tidegate.operators.arrays.digest import digest
from tidegate.operators.testing import CUTS

COLUMNS = {
    "bool": pa.array([True, None, False, True]),
    "int": pa.array([1, None, -3, 4], pa.int16()),
    "float": pa.array([1.5, None, float("nan"), -0.0]),
    "decimal": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal(-2), decimal.Decimal(0)], pa.decimal128(9, 2)),
    "string": pa.array(["", None, "a", "bc"]),
    "binary": pa.array([b"", None, b"a", b"bc"]),
    "fixed": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "date": pa.array([dt.date(2024, 1, 1), None, dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "list": pa.array([[1, 2], None, [], [None]]),
    "struct": pa.array([{"a": 1}, None, {"a": None}, {"a": 4}]),
    "map": pa.array([[("k", 1)], None, [], [("l", None)]], pa.map_(pa.string(), pa.int64())),
    "nested": pa.array([[{"a": ["x"]}], None, [], [{"a": None}]]),
    "null": pa.nulls(4),
    "interval": pa.array([(1, 2, 3000), None, (0, 0, 0), (0, 1, 0)], pa.month_day_nano_interval()),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None, b"1" * 16, b"2" * 16], pa.binary(16))),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
}


def of(table: pa.Table) -> str:
    return digest(table.schema, table.to_batches())


@pytest.mark.parametrize("name", COLUMNS)
def test_cuts_do_not_show(name: str) -> None:
    table = pa.table({"c": COLUMNS[name]})
    assert {digest(table.schema, cut(table)) for cut in CUTS} == {of(table)}


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "null"])
def test_every_row_and_its_place_shows(name: str) -> None:
    table = pa.table({"c": COLUMNS[name]})
    orders = ([0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2], [0, 1, 2], [0, 1, 2, 2])
    assert len({of(table.take(order)) for order in orders}) == len(orders)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
        (pa.array([None, 0]), pa.array([0, None])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([[1], [2]]), pa.array([[1, 2], []])),
        (pa.array([[], None], pa.list_(pa.int8())), pa.array([None, []], pa.list_(pa.int8()))),
        (pa.array([1], pa.int8()), pa.array([1], pa.uint8())),
    ],
)
def test_what_is_easily_confused_is_told_apart(left: pa.Array, right: pa.Array) -> None:
    assert of(pa.table({"c": left})) != of(pa.table({"c": right}))


def test_what_lies_below_a_null_does_not_show() -> None:
    values = pa.array([1, 2, 3])
    hidden = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x05"), values.buffers()[1]])
    assert of(pa.table({"c": hidden})) == of(pa.table({"c": pa.array([1, None, 3])}))

"""Canonical order: of any type, whatever the order the rows came in."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.changes.values.canonical_rows import canonical
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows

NAN = float("nan")
ORDERED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [-3, 0, 5, None]),
    (pa.uint64(), [0, 1 << 63, None]),
    (pa.float64(), [-float("inf"), -1.5, 0.0, 2.0, float("inf"), NAN, None]),
    (pa.bool_(), [False, True, None]),
    (pa.string(), ["", "Z", "a", "ab", "é", None]),
    (pa.binary(), [b"", b"\x00", b"\xff", None]),
    (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("20.00"), None]),
    (pa.date32(), [-1, 0, 9, None]),
    (pa.null(), [None]),
    (pa.list_(pa.float64()), [[], [1.0], [1.0, 2.0], [1.0, NAN], [1.0, None], [NAN], [None], None]),
    (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": "b"}, {"x": 2, "y": "a"}, {"x": 2, "y": None}, {"x": None, "y": "a"}, None],
    ),
    (pa.list_(pa.struct([("x", pa.int64())])), [[{"x": 1}], [{"x": 1}, {"x": 0}], [{"x": None}], [None], None]),
]


@pytest.mark.parametrize(("type_", "values"), ORDERED, ids=[str(type_) for type_, _ in ORDERED])
def test_values_have_one_order(type_: pa.DataType, values: list[Any]) -> None:
    shuffled = list(range(len(values)))
    random.Random(len(values)).shuffle(shuffled)
    arrays = [pa.array([values[at] for at in shuffled], type=type_), pa.array(shuffled)]
    change = Change(Rows.of_arrays(arrays, len(shuffled)), np.ones(len(shuffled), dtype=np.int64))
    assert canonical(change).rows.columns[1].to_arrow(pa.int64()).to_pylist() == sorted(shuffled)


def test_the_first_column_counts_most_and_the_weight_least() -> None:
    rows = Rows.of_arrays([pa.array([2, 1, 1, 1]), pa.array(["a", "b", "a", "a"])], 4)
    change = canonical(Change(rows, np.array([1, 1, 1, -1])))
    assert change.rows.columns[0].to_arrow(pa.int64()).to_pylist() == [1, 1, 1, 2]
    assert change.rows.columns[1].to_arrow(pa.string()).to_pylist() == ["a", "a", "b", "a"]
    assert change.weights.tolist() == [-1, 1, 1, 1]


@pytest.mark.parametrize("different", [3, 200, 10_000], ids=["mostly alike", "some alike", "hardly alike"])
def test_later_columns_decide_where_the_first_ones_are_alike(different: int) -> None:
    draw = random.Random(different)
    first = [draw.choice([NAN, float(draw.randrange(different))]) for _ in range(400)]
    second = [draw.choice(["a", "b", None]) for _ in first]
    rows = Rows.of_arrays([pa.array(first), pa.array(second)], 400)
    ordered = canonical(Change(rows, np.ones(400, dtype=np.int64))).rows.to_arrays([pa.float64(), pa.string()])
    expected = sorted(zip(first, second, strict=True), key=in_order)
    assert [str(column.to_pylist()) for column in ordered] == [str(list(row)) for row in zip(*expected, strict=True)]


def in_order(row: tuple[float, str | None]) -> tuple[float, str]:
    number, text = row
    return float("inf") if math.isnan(number) else number, text or "null"


def test_minus_zero_is_zero() -> None:
    rows = Rows.of_arrays([pa.array([0.0, -0.0]), pa.array([2, 1])], 2)
    change = canonical(Change(rows, np.array([1, 1])))
    assert change.rows.columns[1].to_arrow(pa.int64()).to_pylist() == [1, 2]

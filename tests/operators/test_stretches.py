"""One code for the keys of several stretches of rows: it compares as the keys do."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays.ordering import Order, Ordering
from tidegate.operators.arrays.stretches import Stretch, code_of

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
NUMBERS = st.none() | st.integers(-3, 3) | st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63)])
TEXTS = st.none() | st.sampled_from(["", "a", "b", "the same eight", "the same eighteen", "the same eighteen 2"])
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS), min_size=1, max_size=8)


def rank(value: Any, *, descending: bool, nulls_first: bool, values: list[Any]) -> int:
    """The place of a value among all of them."""
    if value is None:
        return -1 if nulls_first else len(values)
    position = values.index(value)
    return len(values) - 1 - position if descending else position


@given(
    st.lists(ROWS, min_size=1, max_size=3), st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=3)
)
def test_codes_compare_as_the_keys_do(parts: list[list[tuple[Any, ...]]], ways: list[tuple[bool, bool]]) -> None:
    orders = [Order(column=at, descending=down, nulls_first=first) for at, (down, first) in enumerate(ways)]
    rows = [row for part in parts for row in part]
    keys: list[list[int]] = [[] for _ in rows]
    for at, (down, first) in enumerate(ways):
        values = sorted({row[at] for row in rows} - {None})
        for key, row in zip(keys, rows, strict=True):
            key.append(rank(row[at], descending=down, nulls_first=first, values=values))
    stretches = [stretch(part, orders) for part in parts]
    codes = code_of(stretches).tolist()
    for one, code in zip(keys, codes, strict=True):
        for two, other in zip(keys, codes, strict=True):
            assert ((one > two) - (one < two)) == ((code > other) - (code < other))


def stretch(rows: list[tuple[Any, ...]], orders: list[Order]) -> Stretch:
    columns = [pa.array(values, type_) for values, type_ in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return Stretch(Ordering(orders).keys(batch), 0, len(rows))

"""Merging sorted streams: all rows, in order, ties by stream; no more is read than has to be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays.ordering import Order, Ordering
from tidegate.operators.arrays.sorted_merge import merged
from tidegate.operators.core.streams import BatchStream
from tidegate.proto.errors import InternalError

Row = tuple[object, ...]
SCHEMA = pa.schema([("i", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("row", pa.string())])
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.text("ab", max_size=2),
        st.none() | st.sampled_from([-1.5, -0.0, 0.0, 2.0, math.inf, math.nan]),
    ),
    max_size=12,
)
ORDERS = st.lists(
    st.builds(
        lambda c, d, n: Order(column=c, descending=d, nulls_first=n), st.integers(0, 2), st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=3,
)


class Place:
    """A value's place in one column's order, compared value by value."""

    def __init__(self, value: object, order: Order) -> None:
        self.null = value is None
        self.order = order
        self.value = (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.null == other.null and (self.null or self.value == other.value)

    def __lt__(self, other: Place) -> bool:
        if self.null or other.null:
            return self.null != other.null and self.null == self.order.nulls_first
        return other.value < self.value if self.order.descending else self.value < other.value  # type: ignore[operator]


def in_order(rows: Sequence[Row], orders: Sequence[Order]) -> list[Row]:
    return sorted(rows, key=lambda row: [Place(row[order.column], order) for order in orders])


def batches_of(rows: Sequence[Row], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = list(zip(*rows[start : start + size], strict=True))
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def names(batches: Iterator[pa.RecordBatch]) -> list[object]:
    return [name for batch in batches for name in batch["row"].to_pylist()]


@given(st.lists(ROWS, min_size=1, max_size=4), ORDERS, st.integers(1, 5))
def test_rows_come_in_order_and_equal_ones_by_stream(
    given_streams: list[list[Row]], orders: list[Order], size: int
) -> None:
    streams = [
        in_order([(*row, f"{number}.{position}") for position, row in enumerate(rows)], orders)
        for number, rows in enumerate(given_streams)
    ]
    merged_rows = merged([BatchStream(SCHEMA, batches_of(rows, size)) for rows in streams], Ordering(orders))
    assert names(merged_rows) == [row[-1] for row in in_order([row for rows in streams for row in rows], orders)]


def numbers(*batches: list[int]) -> BatchStream:
    schema = pa.schema([("i", pa.int64())])
    return BatchStream(schema, [pa.record_batch([pa.array(batch, pa.int64())], schema=schema) for batch in batches])


BY_NUMBER = Ordering([Order(column=0)])


def test_no_stream_is_read_ahead_of_what_comes_out() -> None:
    one, two = numbers([1, 2], [8, 9]), numbers([3, 4], [5, 6], [7])
    stream = merged([one, two], BY_NUMBER)
    assert (next(stream)["i"].to_pylist(), one.rows, two.rows) == ([1, 2], 2, 2)
    assert (next(stream)["i"].to_pylist(), one.rows, two.rows) == ([3, 4], 4, 2)


def test_all_streams_are_closed_when_the_merge_is() -> None:
    streams = [numbers([1], [2]), numbers([1], [2])]
    stream = merged(streams, BY_NUMBER)
    next(stream)
    stream.close()
    assert [list(stream) for stream in streams] == [[], []]


@pytest.mark.parametrize("wrong", [([2, 1],), ([1, 2], [1])])
def test_a_stream_that_is_not_sorted_is_an_error_that_names_it(wrong: tuple[list[int], ...]) -> None:
    with pytest.raises(InternalError, match="stream 1 of a merge is not sorted"):
        list(merged([numbers([5]), numbers(*wrong)], BY_NUMBER))


def test_dictionaries_that_differ_come_out_right() -> None:
    schema = pa.schema([("i", pa.int64()), ("d", pa.dictionary(pa.int8(), pa.string()))])

    def one(i: list[int], d: list[str]) -> BatchStream:
        encoded = pa.array(d).dictionary_encode().cast(schema.field("d").type)
        return BatchStream(schema, [pa.record_batch([pa.array(i), encoded], schema=schema)])

    stream = merged([one([1, 3], ["x", "y"]), one([2, 4], ["y", "z"])], BY_NUMBER)
    assert [value for batch in stream for value in batch["d"].to_pylist()] == ["x", "y", "y", "z"]

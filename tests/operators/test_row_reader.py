"""Rows in batches, read from one number up to another one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.row_reader import read_between, reader_of, row_ends

SIZES = st.lists(st.integers(0, 5), max_size=8)


def numbered(sizes: list[int]) -> list[pa.RecordBatch]:
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [pa.record_batch({"x": list(range(start, start + size))}) for start, size in zip(starts, sizes, strict=True)]


@given(SIZES, st.data())
def test_a_reader_gives_the_rows_between_two_numbers_any_number_of_times(sizes: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, sum(sizes)))
    end = data.draw(st.integers(start, sum(sizes)))
    read = reader_of(numbered(sizes))
    for _ in range(2):
        assert [value for batch in read(start, end) for value in batch["x"].to_pylist()] == list(range(start, end))


def test_a_batch_is_asked_for_when_its_turn_comes_and_no_other_is() -> None:
    batches = numbered([2, 3, 4, 5])
    asked: list[int] = []

    def batch_at(number: int) -> pa.RecordBatch:
        asked.append(number)
        return batches[number]

    rows = read_between(batch_at, row_ends(batches), 3, 9)
    assert not asked
    assert next(rows)["x"].to_pylist() == [3, 4]
    assert asked == [1]
    assert [batch["x"].to_pylist() for batch in rows] == [[5, 6, 7, 8]]
    assert asked == [1, 2]

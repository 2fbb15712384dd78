"""Small batches travel as one; the rows are the same."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.values import Cursor, Data, Finished
from tidegate.server.endpoints.joined_batches import SMALL_BYTES, joined


def data(*sizes: int) -> Data:
    batches = tuple(pa.record_batch({"x": pa.array(range(size), pa.int64())}) for size in sizes)
    return Data(cursor=Cursor(3, 9), rows=sum(sizes), batches=batches)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30))
def test_the_rows_are_the_same(sizes: list[int]) -> None:
    (frame,) = joined([data(*sizes)])
    assert isinstance(frame, Data)
    assert (frame.cursor, frame.rows) == (Cursor(3, 9), sum(sizes))
    assert pa.Table.from_batches(frame.batches).to_pydict() == pa.Table.from_batches(data(*sizes).batches).to_pydict()


def test_small_batches_become_one_and_large_ones_are_left_alone() -> None:
    large = SMALL_BYTES // 8
    small, alone, finished = joined([data(1, 2, 3), data(large, large), Finished()])
    assert isinstance(small, Data)
    assert isinstance(alone, Data)
    assert (len(small.batches), len(alone.batches), finished) == (1, 2, Finished())

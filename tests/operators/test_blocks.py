from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.blocks import BLOCK_ROWS, blocks


def batches(*sizes: int) -> list[pa.RecordBatch]:
    ends = itertools.accumulate(sizes)
    return [pa.record_batch({"x": list(range(end - size, end))}) for end, size in zip(ends, sizes, strict=True)]


@given(st.lists(st.integers(0, 25)), st.integers(1, 10))
def test_all_rows_in_order_in_full_blocks_and_a_short_last_one(sizes: list[int], rows: int) -> None:
    found = list(blocks(batches(*sizes), rows))
    assert [x for block in found for x in block["x"].to_pylist()] == list(range(sum(sizes)))
    assert all(block.num_rows == rows for block in found[:-1])
    assert all(0 < block.num_rows <= rows for block in found[-1:])


def test_a_block_has_65536_rows() -> None:
    assert [block.num_rows for block in blocks(batches(200_000))] == [BLOCK_ROWS] * 3 + [200_000 - 3 * BLOCK_ROWS]


@pytest.mark.parametrize("sizes", [(BLOCK_ROWS,), (3 * BLOCK_ROWS,)])
def test_a_block_inside_one_batch_is_not_copied(sizes: tuple[int, ...]) -> None:
    given_batches = batches(*sizes)
    first = next(blocks(given_batches))
    assert first["x"].buffers()[1].address == given_batches[0]["x"].buffers()[1].address


def test_one_row_batches_become_blocks() -> None:
    rows = [pa.record_batch({"x": [i]}) for i in range(5_000)]
    assert [block["x"].to_pylist() for block in blocks(rows, 2_500)] == [list(range(2_500)), list(range(2_500, 5_000))]


def test_no_batch_is_asked_for_before_it_is_needed() -> None:
    pulled = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        for batch in batches(10, 10, 10):
            pulled += 1
            yield batch

    next(blocks(source(), 5))
    assert pulled == 1

"""Distinct rows that are counted place by place are those that are kept as rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.distinct_or_set_op import DistinctOrSetOp, Weighing
from tidegate.operators.changes.kept.dense_counts import DenseCounts
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows

from ...searching import tries

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int16())])
ENTRIES = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.sampled_from([1, 1, 2, -1])), min_size=1)
FAR = st.sampled_from([1, 100, 1 << 40])


def change(entries: list[tuple[int | None, int, int]], factor: int = 1) -> Change:
    first = [None if entry[0] is None else entry[0] * factor for entry in entries]
    arrays = [pa.array(first, pa.int64()), pa.array([entry[1] for entry in entries], pa.int16())]
    weights = np.array([entry[2] for entry in entries], dtype=np.int64)
    return Change(Rows.of_arrays(arrays, len(entries)), weights)


def given_out(operator: DistinctOrSetOp, one: Change) -> Counter[tuple[int | None, int]]:
    """What it answers, row by row."""
    operator.receive(0, one)
    consolidated: Counter[tuple[int | None, int]] = Counter()
    while (due := operator.due()) is not None:
        for out in operator.decide(due):
            columns = [array.to_pylist() for array in out.rows.to_arrays(SCHEMA.types)]
            for row, weight in zip(zip(*columns, strict=True), out.weights.tolist(), strict=True):
                assert row not in consolidated, "what is said to be consolidated has a row twice"
                consolidated[row] = weight
    return consolidated


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.tuples(ENTRIES, FAR), min_size=1, max_size=6))
def test_rows_appear_and_go_as_they_do_where_they_are_kept(parts: list[tuple[list[tuple[int, int, int]], int]]) -> None:
    counted, kept = (DistinctOrSetOp(SCHEMA, Weighing.DISTINCT, once=once) for once in (True, False))
    for entries, factor in parts:
        assert given_out(counted, change(entries, factor)) == given_out(kept, change(entries, factor))


def test_a_row_that_cannot_be_counted_finds_what_was_counted_before() -> None:
    operator = DistinctOrSetOp(SCHEMA, Weighing.DISTINCT, once=True)
    assert given_out(operator, change([(1, 1, 1), (2, 2, 1)])) == {(1, 1): 1, (2, 2): 1}
    assert given_out(operator, change([(None, 1, 1), (2, 2, -1), (1, 1, 1)])) == {(None, 1): 1, (2, 2): -1}


def test_a_count_may_be_any_number_of_64_bits() -> None:
    operator = DistinctOrSetOp(SCHEMA, Weighing.DISTINCT, once=True)
    assert given_out(operator, change([(1, 1, 200)])) == {(1, 1): 1}
    assert given_out(operator, change([(1, 1, -199)])) == {}
    assert given_out(operator, change([(1, 1, -1)])) == {(1, 1): -1}
    assert given_out(operator, change([(1, 1, (1 << 63) - 1)])) == {(1, 1): 1}
    operator.receive(0, change([(1, 1, 1)]))
    with pytest.raises(OverflowError):
        operator.decide(())


def test_few_rows_far_apart_are_not_counted() -> None:
    """A place for every row there could be must not take more memory than the rows."""
    dense_counts = DenseCounts()
    near, far = change([(0, 0, 1)]), change([(1 << 30, 0, 1)])
    assert dense_counts.add(near.rows, near.weights) is not None
    assert dense_counts.add(far.rows, far.weights) is None
    assert dense_counts.nbytes < 1 << 21
    assert dense_counts.contents() is not None

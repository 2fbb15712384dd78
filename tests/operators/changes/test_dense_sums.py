"""Sums in arrays, against sums in plain Python: what they cost follows from the rows that come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.values.change import Change, ones
from tidegate.operators.changes.values.dense_sums import DenseSums
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import FixedColumn

from ...searching import tries

MANY = 100_000
SMALL = 1 << 19
"""The bytes within which the arrays of a few rows stay."""


def keys(slice_: int, numbers: Sequence[int]) -> Rows:
    columns = [np.full(len(numbers), slice_, dtype=np.int64), np.array(numbers, dtype=np.int64)]
    return Rows([FixedColumn(column) for column in columns], len(numbers))


def added(sums: DenseSums, slice_: int, numbers: Sequence[int]) -> Change | None:
    """Count keys. Where they have no place beside those before, these are taken out."""
    rows = keys(slice_, numbers)
    if sums.add(rows, [ones(len(rows))]):
        return None
    before = sums.take()
    assert sums.add(rows, [ones(len(rows))])
    return before


def counts(*taken: Change | None) -> Counter[tuple[int, ...]]:
    total: Counter[tuple[int, ...]] = Counter()
    for change in taken:
        if change is not None:
            columns = [column.values.tolist() for column in change.rows.columns if isinstance(column, FixedColumn)]
            total.update(dict(zip(zip(*columns, strict=True), change.weights.tolist(), strict=True)))
    return total


@pytest.mark.parametrize("taken", [True, False])
def test_a_few_rows_do_not_pay_for_the_many_before_them(taken: bool) -> None:
    sums = DenseSums(1)
    assert added(sums, 0, range(MANY)) is None
    assert sums.nbytes > SMALL
    before = sums.take() if taken else None
    outs = [before, added(sums, 0, [1, 2, 2])]
    assert sums.nbytes < SMALL
    assert counts(*outs, sums.take()) == Counter({(0, at): 1 + (at == 1) + 2 * (at == 2) for at in range(MANY)})


def test_arrays_that_nothing_is_added_to_are_given_back() -> None:
    sums = DenseSums(1)
    added(sums, 0, range(MANY))
    assert counts(sums.take(1)) == Counter({(0, at): 1 for at in range(MANY)})
    sums.take()
    assert sums.take(2) is None
    assert sums.nbytes == 0


def test_changes_of_about_one_size_share_the_arrays() -> None:
    sums = DenseSums(1)
    assert added(sums, 0, range(MANY)) is None
    assert added(sums, 0, range(MANY // 2)) is None
    assert sum(counts(sums.take()).values()) == MANY + MANY // 2


@settings(max_examples=tries(15), deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 40), st.sampled_from([1, 5, 20_000]), st.booleans()),
        max_size=6,
    )
)
def test_each_row_is_counted_once(changes: Sequence[tuple[int, int, int, bool]]) -> None:
    sums, expected = DenseSums(1), Counter[tuple[int, ...]]()
    outs: list[Change | None] = []
    for slice_, low, count, takes in changes:
        expected.update((slice_, low + number) for number in range(count))
        outs.append(added(sums, slice_, range(low, low + count)))
        if takes:
            outs.append(sums.take(slice_ + 1))
    assert counts(*outs, sums.take()) == expected

"""Sums and counts of groups that share a word, beside those of Python's numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.slices import packed_sums
from tidegate.operators.slices.dense_groups import DenseGroups
from tidegate.operators.slices.group_positions import GroupKey
from tidegate.operators.slices.group_totals import GroupState

from ..searching import tries

STATES = (
    GroupState(function="sum", values=1, condition=None),
    GroupState(function="count", values=1, condition=None),
    GroupState(function="count", values=None, condition=None),
    GroupState(function="sum", values=1, condition=None),
)
OUT = pa.schema([("k", pa.int64()), ("s", pa.int64()), ("n", pa.int64()), ("rows", pa.int64()), ("t", pa.int64())])
LARGE = 2**37

Row = tuple[int | None, int | None]


def groups(blocks: Sequence[Sequence[Row]], room: int = 1_000) -> list[tuple[int | None, ...]]:
    dense = DenseGroups((GroupKey(column=0),), STATES, room)
    for rows in blocks:
        columns = [pa.array([row[at] for row in rows], pa.int64()) for at in range(2)]
        assert dense.add(pa.record_batch(columns, ["k", "v"]))
    table = pa.Table.from_batches(dense.take(OUT), OUT)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def naive(blocks: Sequence[Sequence[Row]]) -> list[tuple[int | None, ...]]:
    own: dict[int | None, list[int | None]] = defaultdict(list)
    for rows in blocks:
        for key, value in rows:
            own[key].append(value)
    expected = []
    for key in sorted(own, key=lambda one: (one is not None, one)):
        some = [value for value in own[key] if value is not None]
        total = sum(some) if some else None
        expected.append((key, total, len(some), len(own[key]), total))
    return expected


VALUES = st.integers(-9, 9) | st.sampled_from([LARGE, -LARGE, LARGE // 128, -LARGE // 128])


@pytest.mark.parametrize("most_rows", [3, 10, 1 << 24])
@settings(max_examples=tries(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.tuples(st.none() | st.integers(-9, 9), VALUES), min_size=1, max_size=3), max_size=12),
    st.lists(st.tuples(st.none() | st.integers(-40, 40), st.none() | VALUES), max_size=1),
)
def test_groups_are_those_of_python(
    monkeypatch: pytest.MonkeyPatch, most_rows: int, blocks: list[list[Row]], last: list[Row]
) -> None:
    """Also where words are taken apart, and made anew; where keys are beyond the first; where a null comes late."""
    monkeypatch.setattr(packed_sums, "_MOST_ROWS", most_rows)
    monkeypatch.setattr(packed_sums, "_BLOCKS", 1)
    rows = [*blocks, last] if last else blocks
    assert groups(rows) == naive(rows)


def test_counts_and_sums_of_words_are_those_that_were_added() -> None:
    packed = packed_sums.PackedSums(2)
    assert packed.has_room(2, packed_sums._MOST_SUM - 1)
    packed.add(np.array([0, 1]), np.array([1 - packed_sums._MOST_SUM, packed_sums._MOST_SUM - 1]), 1)
    counts, sums = packed_sums.counts_and_sums(packed.words)
    assert counts.tolist() == [1, 1]
    assert sums.tolist() == [1 - packed_sums._MOST_SUM, packed_sums._MOST_SUM - 1]

"""Rows by their key, however they came in."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.arrangement import Arrangement
from tidegate.operators.changes.change import Change
from tidegate.operators.changes.columns import FixedColumn
from tidegate.operators.changes.consolidate import Entries, consolidated
from tidegate.operators.changes.rows import Rows

TYPES = [pa.int64(), pa.int64()]
ENTRIES = st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from([1, -1, 2]))


def rows(*columns: list[int | None]) -> Rows:
    return Rows.of_arrays([pa.array(each, pa.int64()) for each in columns], len(columns[0]))


def insert(arrangement: Arrangement, entries: list[tuple[int, int, int]]) -> None:
    keys, values, weights = (list(each) for each in zip(*entries, strict=True))
    arrangement.insert(Change(rows(keys, values), np.array(weights, dtype=np.int64)))


def found(arrangement: Arrangement, keys: list[int]) -> Counter[tuple[int, int]]:
    answer = arrangement.find(rows(keys))
    values = answer.rows.to_arrays(TYPES)[1].to_pylist()
    total: Counter[tuple[int, int]] = Counter()
    for asked, value, weight in zip(answer.asked.tolist(), values, answer.weights.tolist(), strict=True):
        total[keys[asked], value] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(ENTRIES, min_size=1), st.lists(st.integers(0, 7), unique=True))), st.booleans())
def test_a_key_has_the_sum_of_all_that_came_in_for_it(
    steps: list[tuple[list[tuple[int, int, int]], list[int]]], many: bool
) -> None:
    arrangement = Arrangement(TYPES, (0,), depth=0)
    total: Counter[tuple[int, int]] = Counter()
    for entries, keys in steps:
        inserted = entries * 300 if many else entries
        insert(arrangement, inserted)
        for key, value, weight in inserted:
            total[key, value] += weight
        assert found(arrangement, keys) == Counter({r: w for r, w in total.items() if w and r[0] in keys})
    assert len(arrangement.contents()) == sum(1 for weight in total.values() if weight)


def test_few_rows_at_a_time_become_few_runs() -> None:
    arrangement = Arrangement(TYPES, (0,), depth=0)
    for start in range(0, 10_000, 50):
        insert(arrangement, [(at, at, 1) for at in range(start, start + 50)])
    assert (arrangement.rows, len(arrangement.runs) <= 4) == (10_000, True)
    assert found(arrangement, [0, 49, 50, 9_999]) == Counter({(at, at): 1 for at in (0, 49, 50, 9_999)})


def test_a_null_is_not_the_number_that_has_its_hash() -> None:
    null, number = rows([None], [0]), rows([7], [0])
    arrangement = Arrangement(TYPES, (0,), depth=0)
    arrangement.insert(Change(number, np.ones(1, dtype=np.int64)), null.select((0,)).hashes())
    assert len(arrangement.find(null.select((0,)))) == 0


def test_rows_of_one_key_are_summed_though_their_hashes_differ_in_the_last_bit_only() -> None:
    values = np.array([1, 2, 1, 2, 1], dtype=np.int64)
    hashes = np.array([8, 9, 8, 9, 8], dtype=np.uint64)
    ones = np.ones(5, dtype=np.int64)
    summed = consolidated(Entries(np.zeros(5, dtype=np.uint64), hashes, Rows([FixedColumn(values)], 5), ones, ()))
    assert summed.weights.tolist() == [3, 2]

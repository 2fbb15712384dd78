"""Rows by their key, however they came in."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.kept.arrangement import Arrangement, _searched
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.consolidate import Entries, consolidated
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import FixedColumn
from tidegate.operators.core.interrupts import MANY, Watch, looking

from ...searching import tries

TYPES = [pa.int64(), pa.int64()]
ENTRIES = st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from([1, -1, 2]))


def rows(*columns: list[int | None]) -> Rows:
    return Rows.of_arrays([pa.array(column, pa.int64()) for column in columns], len(columns[0]))


def insert(arrangement: Arrangement, entries: list[tuple[int, int, int]]) -> None:
    keys, values, weights = (list(part) for part in zip(*entries, strict=True))
    arrangement.insert(Change(rows(keys, values), np.array(weights, dtype=np.int64)))


def totals_of(arrangement: Arrangement, keys: list[int]) -> Counter[tuple[int, int]]:
    answer = arrangement.find(rows(keys))
    values = answer.rows.to_arrays(TYPES)[1].to_pylist()
    total: Counter[tuple[int, int]] = Counter()
    for asked, value, weight in zip(answer.asked.tolist(), values, answer.weights.tolist(), strict=True):
        total[keys[asked], value] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


@settings(max_examples=tries(20), deadline=None)
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
        assert totals_of(arrangement, keys) == Counter({r: w for r, w in total.items() if w and r[0] in keys})
    assert len(arrangement.contents()) == sum(1 for weight in total.values() if weight)


def test_few_rows_at_a_time_become_few_runs() -> None:
    arrangement = Arrangement(TYPES, (0,), depth=0)
    for start in range(0, 10_000, 50):
        insert(arrangement, [(at, at, 1) for at in range(start, start + 50)])
    assert (arrangement.rows, len(arrangement.runs) <= 4) == (10_000, True)
    assert totals_of(arrangement, [0, 49, 50, 9_999]) == Counter({(at, at): 1 for at in (0, 49, 50, 9_999)})


def test_a_null_is_not_the_number_that_has_its_hash() -> None:
    null, number = rows([None], [0]), rows([7], [0])
    arrangement = Arrangement(TYPES, (0,), depth=0)
    arrangement.insert(
        Change(number, np.ones(1, dtype=np.int64)), number.select((0,)).hashed(null.select((0,)).hashes())
    )
    assert len(arrangement.find(null.select((0,)))) == 0


def test_rows_of_one_key_are_summed_though_their_hashes_differ_in_the_last_bit_only() -> None:
    values = np.array([1, 2, 1, 2, 1], dtype=np.int64)
    hashes = np.array([8, 9, 8, 9, 8], dtype=np.uint64)
    ones = np.ones(5, dtype=np.int64)
    summed = consolidated(Entries(np.zeros(5, dtype=np.uint64), hashes, Rows([FixedColumn(values)], 5), ones, ()))
    assert summed.weights.tolist() == [3, 2]


@settings(max_examples=tries(20), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 2)), min_size=1),
    st.lists(st.lists(st.integers(-60, 60), min_size=2, unique=True), min_size=1),
    st.sampled_from([1, 1 << 33]),
)
def test_keys_are_found_by_their_values_as_they_are_by_searching(
    pairs: list[tuple[int, int]], asked: list[list[int]], factor: int
) -> None:
    """Asked often enough, a run of keys that lie close together gets a directory; one of keys far apart does not."""
    arrangement = Arrangement(TYPES, [0], depth=0)
    for _ in range(300 // len(pairs) + 1):  # a run of its own, not a few rows that are kept as they come
        insert(arrangement, [(key * factor, value, 1) for key, value in pairs])
    copies = 300 // len(pairs) + 1
    for keys in asked * 3:
        wanted = Counter({(k, v): n * copies for (k, v), n in Counter(pairs).items() if k in keys})
        scaled = totals_of(arrangement, [key * factor for key in keys])
        assert Counter({(k // factor, v): n for (k, v), n in scaled.items()}) == wanted


def test_a_directory_ends_with_its_run() -> None:
    arrangement = Arrangement(TYPES, [0], depth=0)
    many = [(key, 0, 1) for key in range(600)]
    insert(arrangement, many)
    assert totals_of(arrangement, list(range(600))) == Counter({(key, 0): 1 for key in range(600)})
    insert(arrangement, [(key, 1, 1) for key in range(-600, 700)])
    assert totals_of(arrangement, [-7, 5, 650]) == Counter({(-7, 1): 1, (5, 0): 1, (5, 1): 1, (650, 1): 1})


def test_a_search_for_very_many_keys_runs_beside_the_looks_of_its_thread() -> None:
    started: list[int] = []

    def start(run: Callable[[], None]) -> None:
        started.append(1)
        run()

    keys = np.arange(MANY, dtype=np.uint64)
    with looking(Watch(lambda: None, start)):
        pairs = list(_searched(keys, keys))
        assert len(started) == 2
        list(_searched(keys, keys[:100]))
    assert len(started) == 2
    assert sum(len(asked) for asked, _ in pairs) == MANY


def test_many_keys_are_looked_up_with_looks_in_between() -> None:
    arrangement, count = Arrangement(TYPES, [0], depth=0), 3 * MANY
    column = list(range(count))
    arrangement.insert(Change(rows(column, column), np.ones(count, dtype=np.int64)))
    looks: list[int] = []
    with looking(Watch(lambda: looks.append(1))):
        answer = arrangement.find(rows(column), rows=False)
    assert answer.asked.tolist() == column
    assert len(looks) >= 3

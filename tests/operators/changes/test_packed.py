"""Rows with which an arrangement is filled before the first one is asked for: found as in one that was filled late."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.pairs import PAIRS
from tidegate.operators.changes.values.change import Change, ones
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import FixedColumn

from ...searching import tries

TYPES = [pa.int64(), pa.int64()]
MANY = 5_000


def change_of(
    keys: list[int | None] | np.ndarray, values: list[int] | np.ndarray, *, round_: int | None = None
) -> Change:
    rows = Rows.of_arrays([pa.array(keys, pa.int64()), pa.array(values, pa.int64())], len(keys))
    rounds = () if round_ is None else (np.full(len(keys), round_, dtype=np.int64),)
    return Change(rows, ones(len(keys)), rounds)


def totals_of(arrangement: Arrangement, keys: list[int | None]) -> Counter[tuple[object, ...]]:
    """Of each key and value their weight, at each round."""
    total: Counter[tuple[object, ...]] = Counter()
    for run, asked, at in arrangement.matches(Rows.of_arrays([pa.array(keys, pa.int64())], len(keys))):
        assert len(asked) == len(at)
        entries = run.pick(at)
        values = entries.rows.to_arrays(TYPES)[1].to_pylist()
        times = (numbers.tolist() for numbers in entries.rounds)
        for number, value, weight, *time in zip(asked.tolist(), values, entries.weights.tolist(), *times, strict=True):
            total[(keys[number], value, *time)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


@settings(max_examples=tries(40), deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 4),
    st.sampled_from([0, -20, 1 << 40]),
    st.lists(st.tuples(st.integers(-5, 65), st.integers(0, 5), st.sampled_from([1, -1, 2])), max_size=8),
    st.lists(st.lists(st.integers(-30, 70), min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_what_fills_it_is_found_with_all_that_comes_after(
    keys: int, values: int, low: int, later: list[tuple[int, int, int]], asked: list[list[int]]
) -> None:
    random = np.random.default_rng(keys)
    at = random.integers(0, keys, MANY), random.integers(0, values, MANY)
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=0,
    )
    arrangement.insert(change_of(at[0] + low, at[1]))
    total: Counter[tuple[object, ...]] = Counter((k + low, v) for k, v in zip(*(c.tolist() for c in at), strict=True))
    for wanted in asked:
        of = [key + low for key in wanted]
        for key, value, weight in later:
            rows = change_of([key + low], [value])
            arrangement.insert(Change(rows.rows, np.array([weight])))
            total[key + low, value] += weight
        expected = Counter({row: n * of.count(row[0]) for row, n in total.items() if n and row[0] in of})
        assert totals_of(arrangement, of) == expected
    assert len(arrangement.contents()) == sum(1 for weight in total.values() if weight)


@pytest.mark.parametrize("spread", [1, 1 << 30], ids=["close", "far apart"])
def test_keys_that_are_null_are_found_too(spread: int) -> None:
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=0,
    )
    arrangement.insert(change_of(np.arange(MANY) * spread, np.arange(MANY)))
    arrangement.insert(change_of([None, None], [1, 2]))
    assert totals_of(arrangement, [None, 7 * spread]) == Counter({(None, 1): 1, (None, 2): 1, (7 * spread, 7): 1})


def test_rows_keep_the_round_that_they_came_in_at() -> None:
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=1,
    )
    arrangement.insert(change_of(np.arange(MANY), np.arange(MANY), round_=3))
    arrangement.insert(change_of([8], [1], round_=4))
    assert totals_of(arrangement, [8, 9]) == Counter({(8, 8, 3): 1, (8, 1, 4): 1, (9, 9, 3): 1})
    assert totals_of(arrangement, [8]) == Counter({(8, 8, 3): 1, (8, 1, 4): 1})


def test_rows_of_several_rounds_are_no_less_found() -> None:
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=1,
    )
    for number in (0, 1):
        arrangement.insert(change_of(np.arange(MANY), np.full(MANY, number), round_=number))
    assert totals_of(arrangement, [8, 8]) == Counter({(8, 0, 0): 2, (8, 1, 1): 2})


def test_equal_rows_are_kept_once() -> None:
    arrangement = Arrangement(
        TYPES,
        [1],
        depth=0,
    )
    arrangement.insert(change_of(np.zeros(MANY, dtype=np.int64), np.zeros(MANY, dtype=np.int64)))
    (run, _, at), *more = arrangement.matches(Rows([FixedColumn(np.zeros(1, dtype=np.int64))], 1))
    assert (run.pick(at).weights.tolist(), more, arrangement.rows) == ([MANY], [], 1)


def test_a_run_that_is_as_long_takes_in_what_fills_it() -> None:
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=0,
    )
    arrangement.insert(change_of(np.arange(MANY), np.arange(MANY)))
    assert totals_of(arrangement, [1]) == Counter({(1, 1): 1})
    arrangement.insert(change_of(np.arange(2 * MANY), np.arange(2 * MANY)))
    assert [len(run) for run in arrangement.runs] == [2 * MANY]
    assert totals_of(arrangement, [1, MANY]) == Counter({(1, 1): 2, (MANY, MANY): 1})


def test_pairs_of_a_hot_key_are_made_a_piece_at_a_time() -> None:
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=0,
    )
    arrangement.insert(change_of(np.zeros(MANY, dtype=np.int64), np.arange(MANY)))
    keys = Rows([FixedColumn(np.zeros(1_000, dtype=np.int64))], 1_000)
    sizes = [len(at) for _, _, at in arrangement.matches(keys)]
    assert (sum(sizes), max(sizes) <= PAIRS + MANY) == (1_000 * MANY, True)


def test_after_it_is_cleared_it_has_nothing() -> None:
    arrangement = Arrangement(
        TYPES,
        [0],
        depth=0,
    )
    arrangement.insert(change_of(np.arange(MANY), np.arange(MANY)))
    arrangement.clear()
    assert (arrangement.rows, arrangement.nbytes, totals_of(arrangement, [1, 2])) == (0, 0, Counter())

"""Rows in the order of time, against a dictionary."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.event_time.timed_rows import TimedRows
from tidegate.operators.changes.kept import arrangement
from tidegate.operators.changes.kept.held_state import HeldState
from tidegate.operators.changes.kept.state_format import load_arrangement, save_arrangement
from tidegate.operators.changes.values.change import Change, ones
from tidegate.operators.changes.values.consolidate import consolidate
from tidegate.operators.changes.values.rows import Rows

from ....searching import tries

SCHEMA: Final = pa.schema([("time", pa.int64()), ("text", pa.string())])
LEAST, MOST = -(2**63), 2**63 - 1
TIMES = st.one_of(st.integers(-5, 5), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))
ROWS = st.lists(st.tuples(TIMES, st.sampled_from(["a", "b"]), st.sampled_from([-1, 1, 2])), max_size=8)


def change(rows: list[tuple[int, str, int]]) -> Change:
    times, texts, weights = list(zip(*rows, strict=True)) if rows else ([], [], [])
    batch = pa.record_batch([pa.array(times, pa.int64()), pa.array(texts, pa.string())], schema=SCHEMA)
    return Change.of_batch(batch, np.array(weights, dtype=np.int64))


def weighed(rows: Change) -> Counter[tuple[int, str]]:
    columns = [array.to_pylist() for array in rows.rows.to_arrays(SCHEMA.types)]
    return Counter(dict(zip(zip(*columns, strict=True), rows.weights.tolist(), strict=True)))


@settings(max_examples=tries(60), deadline=None)
@given(
    steps=st.lists(st.tuples(ROWS, TIMES, TIMES, st.one_of(st.none(), TIMES), st.booleans()), max_size=6),
    long=st.sampled_from([1, 4_096]),
)
def test_rows_are_given_by_time_until_they_are_taken_away(
    steps: list[tuple[list[tuple[int, str, int]], int, int, int | None, bool]], long: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrangement, "_LONG", long)
        _given_by_time(steps)


def _given_by_time(steps: list[tuple[list[tuple[int, str, int]], int, int, int | None, bool]]) -> None:
    kept, naive, bound = TimedRows(SCHEMA.types), Counter[tuple[int, str]](), LEAST
    for inserted, low, high, gone, restored in steps:
        inserted = [row for row in inserted if row[0] >= bound]
        kept.insert(change(inserted))
        for time, text, weight in inserted:
            naive[time, text] += weight
        if gone is not None:
            kept.drop_below(gone)
            bound = max(bound, gone)
            naive = Counter({row: weight for row, weight in naive.items() if row[0] >= bound})
        if restored:
            state, kept = _saved(kept), TimedRows(SCHEMA.types)
            load_arrangement(state, "rows", kept, SCHEMA)
            kept.drop_below(bound)
        expected = {row: weight for row, weight in naive.items() if weight and low <= row[0] < high}
        assert weighed(kept.between(low, high)) == expected


def test_a_run_whose_rows_are_gone_takes_no_memory() -> None:
    kept = TimedRows(SCHEMA.types)
    for start in range(0, 50_000, 1_000):
        kept.insert(change([(time, "a", 1) for time in range(start, start + 1_000)]))
        kept.drop_below(start)
    assert kept.rows <= 4_000
    assert kept.bounds == (49_000, 49_999)


def _merged(monkeypatch: pytest.MonkeyPatch, batches: list[list[int]]) -> tuple[list[int], TimedRows]:
    """The rows of each merge, where rows come with these times."""
    sizes: list[int] = []
    merged = arrangement.merged
    monkeypatch.setattr(
        arrangement, "merged", lambda runs, *others: sizes.append(sum(map(len, runs))) or merged(runs, *others)
    )
    kept = TimedRows([pa.int64()])
    for times in batches:
        kept.insert(Change(Rows.of_arrays([pa.array(times, pa.int64())], len(times)), ones(len(times))))
    return sizes, kept


def test_rows_that_come_in_order_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch begins a little before the end of the one before it. Short runs are put together at first."""
    sizes, kept = _merged(monkeypatch, [list(range(start - 50, start + 1_000)) for start in range(0, 100_000, 1_000)])
    assert max(sizes) <= 2 * 4_096
    assert sum(sizes) <= 5 * 105_000
    assert len(kept.runs) <= 100_000 / 4_096 + 5
    assert len(kept.between(-50, 100_000)) == 100_000 - 1_000 + 1_050


def test_rows_that_come_in_no_order_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, kept = _merged(monkeypatch, [list(range(start, 500_000, 100)) for start in range(50)])
    assert max(sizes) >= 100_000
    assert len(kept.runs) < 10


def _saved(kept: TimedRows) -> HeldState:
    state = HeldState()
    save_arrangement(state, "rows", kept, SCHEMA)
    return state


@pytest.mark.parametrize("rows", [50, 6_000])
def test_each_of_several_numbers_of_rows_is_summed(rows: int) -> None:
    """Rows of whole numbers, of which each is in three of the changes. The last one takes a third of them away."""
    times, keys = np.arange(rows) % 97, np.arange(rows) // 97
    numbers = np.stack([np.ones(rows, dtype=np.int64), np.arange(rows)], axis=1)
    batch = pa.record_batch([pa.array(times), pa.array(keys)], names=["time", "key"])
    gone = np.where((np.arange(rows) % 3 == 0)[:, np.newaxis], -2 * numbers, numbers)
    both = Rows.concat([Rows.of_batch(batch)] * 3)
    summed = consolidate(Change(both, np.concatenate([numbers, numbers, gone])))
    columns = [array.to_pylist() for array in summed.rows.to_arrays([pa.int64(), pa.int64()])]
    answer = dict(zip(zip(*columns, strict=True), map(tuple, summed.weights.tolist()), strict=True))
    left = [at for at in range(rows) if at % 3]
    assert answer == {(times[at], keys[at]): (3, 3 * at) for at in left}


def test_many_rows_of_runs_that_overlap_have_all_of_their_numbers() -> None:
    kept = TimedRows([pa.int64(), pa.int64()], width=2)
    random = np.random.default_rng(7)
    naive: Counter[tuple[int, int]] = Counter()
    for rows in (9_000, 700, 50):
        times, keys = random.integers(0, 500, rows), random.integers(0, 40, rows)
        batch = pa.record_batch([pa.array(times), pa.array(keys)], names=["time", "key"])
        kept.insert_numbers(Rows.of_batch(batch), np.stack([np.ones(rows, np.int64), keys], axis=1), ())
        naive.update(zip(times.tolist(), keys.tolist(), strict=True))
    given_rows = kept.between(0, 400)
    columns = [array.to_pylist() for array in given_rows.rows.to_arrays([pa.int64(), pa.int64()])]
    answer = dict(zip(zip(*columns, strict=True), map(tuple, given_rows.weights.tolist()), strict=True))
    assert answer == {row: (count, count * row[1]) for row, count in naive.items() if row[0] < 400}

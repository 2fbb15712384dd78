"""Packed entries, and those beside them that have no room in a word: what is asked of both is what a list would say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.ordering import Order
from tidegate.operators.changes.kept import arrangement as arrangements
from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.held_state import HeldState
from tidegate.operators.changes.kept.packed_words import PackedRun
from tidegate.operators.changes.kept.state_format import load_arrangement, save_arrangement
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.testing import MemoryState

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int32())])
KEYS = st.sampled_from([0, 1, 2, 5, 300, -70_000, 1 << 61, -(1 << 62), None])
VALUES = st.sampled_from([0, 1, 2, 3, -4, 1_000_000, None])
ENTRY = st.tuples(KEYS, VALUES, st.integers(0, 3) | st.just(40), st.sampled_from([1, 1, -1, 300]))
NEAR = st.tuples(st.integers(-3, 3), st.integers(-20, 20), st.integers(0, 3), st.sampled_from([1, -1]))
BATCHES = st.lists(st.lists(ENTRY, min_size=1, max_size=12), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def nothing_is_few() -> Iterator[None]:
    """So that a handful of rows takes the way of many."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrangements, "_FEW", 0)
        patched.setattr(arrangements, "_SOME", 0)
        yield


def filled(batches: list[list[tuple[int | None, int | None, int, int]]], *, descending: bool = False) -> Arrangement:
    order = Order(column=1, descending=descending, nulls_first=False)
    arrangement = Arrangement(SCHEMA.types, (0,), depth=1, orders=[order])
    for batch in batches:
        keys, values, rounds, weights = zip(*batch, strict=True)
        rows = Rows.of_arrays([pa.array(keys, pa.int64()), pa.array(values, pa.int32())], len(batch))
        arrangement.insert_numbers(rows, np.array(weights), (np.array(rounds),))
    return arrangement


def asked_for(batches: list[list[tuple[int | None, int | None, int, int]]]) -> tuple[list[int | None], Rows]:
    keys = [*dict.fromkeys(entry[0] for batch in batches for entry in batch), 77]
    return keys, Rows.of_arrays([pa.array(keys, pa.int64())], len(keys))


@settings(deadline=None)
@given(BATCHES, st.integers(0, 4))
def test_what_is_held_at_a_time_is_the_sum_of_all_up_to_then(batches: list[list[tuple]], time: int) -> None:
    kept, (keys, asked) = filled(batches), asked_for(batches)
    wanted: Counter[tuple] = Counter()
    late: set[tuple] = set()
    total: Counter[tuple] = Counter()
    for key, value, number, weight in (entry for batch in batches for entry in batch):
        total[key, value, number] += weight
    for (key, value, number), weight in total.items():
        if weight and number <= time:
            wanted[key, value] += weight
        elif weight:
            late.add((key, number))
    held = kept.held(asked, (time,))
    values = held.now.rows.to_arrays(SCHEMA.types)[1].to_pylist()
    totals: Counter[tuple] = Counter()
    for at, value, weight in zip(held.now.asked.tolist(), values, held.now.weights.tolist(), strict=True):
        totals[keys[at], value] += weight
    assert {row: n for row, n in totals.items() if n} == {row: n for row, n in wanted.items() if n}
    whose, (rounds,) = held.history
    history = zip((keys[at] for at in whose.tolist()), rounds.tolist(), strict=True)
    assert late == {(key, number) for key, number in history if number > time} & late
    assert {key for key, number in late} <= {keys[at] for at in whose.tolist()}


@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(-3, 3), st.integers(-20, 20), st.integers(0, 3), st.sampled_from([1, -1])), min_size=1
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 3),
    st.booleans(),
)
def test_the_first_value_is_the_least_that_is_there(batches: list[list[tuple]], time: int, descending: bool) -> None:
    kept, (keys, asked) = filled(batches, descending=descending), asked_for(batches)
    sums: Counter[tuple] = Counter()
    for key, value, number, weight in (entry for batch in batches for entry in batch):
        sums[key, value] += weight * (number <= time)
    wanted: dict[int, int] = {}
    for (key, value), weight in sums.items():
        if weight > 0 and (key not in wanted or (value > wanted[key]) is descending):
            wanted[key] = value
    first = kept.first(asked, (time,), 1)
    assert first is not None
    firsts: dict[int | None, int] = {}
    for at, value in zip(first.asked.tolist(), first.rows.to_arrays(SCHEMA.types)[1].to_pylist(), strict=True):
        firsts.setdefault(keys[at], value)
    assert firsts == wanted


@settings(deadline=None)
@given(BATCHES, st.booleans())
def test_saved_and_loaded_it_has_the_same_entries(batches: list[list[tuple]], held: bool) -> None:
    kept, (_, asked) = filled(batches), asked_for(batches)
    again = filled([])
    state = HeldState() if held else MemoryState()
    save_arrangement(state, "rows", kept, SCHEMA)
    load_arrangement(state, "rows", again, SCHEMA)
    gone = [[(key, value, number, -weight) for key, value, number, weight in batch] for batch in batches]
    for batch in gone:
        keys, values, rounds, weights = zip(*batch, strict=True)
        rows = Rows.of_arrays([pa.array(keys, pa.int64()), pa.array(values, pa.int32())], len(batch))
        again.insert_numbers(rows, np.array(weights), (np.array(rounds),))
    left = again.held(asked, (100,)).now
    sums = Counter[tuple]()
    values = left.rows.to_arrays(SCHEMA.types)[1].to_pylist()
    for at, value, weight in zip(left.asked.tolist(), values, left.weights.tolist(), strict=True):
        sums[at, value] += weight
    assert not any(sums.values())
    assert len(again.contents()) == 0


def test_a_part_of_a_checkpoint_is_as_large_as_the_run_in_memory() -> None:
    kept = filled([[(key % 1_000, key, key % 7, 1) for key in range(20_000)]])
    (run,) = kept.runs
    state = MemoryState()
    save_arrangement(state, "rows", kept, SCHEMA)
    [part] = state.read_parts("rows")[1]
    assert isinstance(run, PackedRun)
    assert part.nbytes == run.nbytes == 9 * 20_000


def test_what_is_undone_leaves_nothing_though_the_layout_has_grown_since() -> None:
    grown = [[(key, 1, 0, 1) for key in range(50)], [(5_000, 70, 1, 1)], [(-9_000, 70, 60, 1)]]
    kept = filled([*grown, *([(key, value, number, -weight) for key, value, number, weight in step] for step in grown)])
    assert len(kept.contents()) == 0

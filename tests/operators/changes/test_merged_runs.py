"""Two runs of entries as one: the same sums, in less memory than both runs and their result take."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.ordering import Order
from tidegate.operators.changes.kept import arrangement as kept
from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.ordered_arrangement import OrderedArrangement, weighing
from tidegate.operators.changes.kept.recent_entries import AT_ONCE
from tidegate.operators.changes.values import value_columns
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.consolidate import Entries, entries
from tidegate.operators.changes.values.merged_runs import Merge, merged
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.core import wide_rows
from tidegate.operators.core.wide_rows import wide_pool

from ...searching import tries

Entry = tuple[int, str, int, int]
"""A key, a text, a round, a weight."""
TYPES = [pa.int64(), pa.string()]
ENTRIES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.integers(0, 1), st.sampled_from([1, -1, 2])), max_size=60
)
ORDERS = [Order(column=1, descending=True, nulls_first=False)]


def run_of(rows: list[Entry], hashed: Callable[[Rows], np.ndarray[tuple[int], np.dtype[np.uint64]]]) -> Entries:
    keys, texts, rounds, weights = (list(part) for part in zip(*rows, strict=True)) if rows else ([], [], [], [])
    both = Rows.of_arrays([pa.array(keys, pa.int64()), pa.array(texts, pa.string())], len(rows))
    numbers = (np.array(rounds, dtype=np.int64),)
    hashes = hashed(both.select((0,))), hashed(both)
    return entries(both, *hashes, np.array(weights, dtype=np.int64), numbers)


def listed(run: Entries) -> list[Entry]:
    columns = [array.to_pylist() for array in run.rows.to_arrays(TYPES)]
    return list(zip(*columns, run.rounds[0].tolist(), run.weights.tolist(), strict=True))


def summed(rows: list[Entry]) -> dict[tuple[int, str, int], int]:
    total: Counter[tuple[int, str, int]] = Counter()
    for key, text, number, weight in rows:
        total[key, text, number] += weight
    return {row: weight for row, weight in total.items() if weight}


@pytest.mark.parametrize(
    "hashed",
    [Rows.hashes, lambda rows: rows.hashes() & np.uint64(1), lambda rows: np.zeros(len(rows), dtype=np.uint64)],
    ids=["hashes", "two hashes", "one hash"],
)
@settings(max_examples=tries(25), deadline=None)
@given(older=ENTRIES, newer=ENTRIES, undone=st.booleans())
def test_a_merge_has_the_sum_of_each_row_and_round(
    hashed: Callable[[Rows], np.ndarray[tuple[int], np.dtype[np.uint64]]],
    older: list[Entry],
    newer: list[Entry],
    undone: bool,
) -> None:
    if undone:
        newer = [(key, text, number, -weight) for key, text, number, weight in older] + newer[:1]
    runs = [run_of(older, hashed), run_of(newer, hashed)]
    run = merged(runs, Merge.of(*runs), None)
    assert not runs
    assert Counter(listed(run)) == Counter((*row, weight) for row, weight in summed(older + newer).items())
    assert (np.diff(run.key_hashes.astype(np.float64)) >= 0).all()


@pytest.mark.parametrize("ordered", [False, True])
@settings(max_examples=tries(6), deadline=None)
@given(data=st.data())
def test_runs_that_stay_apart_for_want_of_room_answer_as_merged_ones(ordered: bool, data: st.DataObject) -> None:
    """Whether there is room is drawn anew for every merge; an arrangement that merges all is the oracle."""

    def arrangement() -> Arrangement:
        return OrderedArrangement(TYPES, (0,), ORDERS) if ordered else Arrangement(TYPES, (0,), depth=0)

    seed = data.draw(st.integers(0, 1 << 32))
    random = np.random.default_rng(seed)
    apart, together = arrangement(), arrangement()
    for _ in range(6):
        count = int(random.integers(300, 900))
        texts = random.choice(["a", "bb", "ccc"], count)
        rows = Rows.of_arrays([pa.array(random.integers(0, 200, count)), pa.array(texts, pa.string())], count)
        change = Change(rows, random.choice([-1, 1, 2], count))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kept, "has_room", lambda _: bool(random.integers(0, 2)))
            apart.insert(change)
        together.insert(change)
    assert contents(apart) == contents(together)
    keys = Rows.of_arrays([pa.array(range(0, 220, 7))], 32)
    assert totals(apart, keys) == totals(together, keys)
    for of in (apart, together):
        if isinstance(of, OrderedArrangement):
            first = of.first_of(keys, 1, weighing(2))
            texts = first.rows.columns[1].to_arrow(pa.string()).to_pylist()
            rows_of_keys = list(zip(first.asked.tolist(), texts, first.weights.tolist(), strict=True))
            for number, key in enumerate(range(0, 220, 7)):
                of_key = [text for asked, text, weight in rows_of_keys if asked == number for _ in range(weight)]
                assert of_key[:2] == texts_of(together, key)[:2]


def texts_of(arrangement: Arrangement, key: int) -> list[str]:
    """A key's texts in descending order, with copies."""
    change = arrangement.contents()
    keys, texts = (array.to_pylist() for array in change.rows.to_arrays(TYPES))
    rows = zip(keys, texts, change.weights.tolist(), strict=True)
    of_key = [(text, weight) for mine, text, weight in rows if mine == key]
    return [text for text, weight in sorted(of_key, reverse=True) for _ in range(weight)]


def contents(arrangement: Arrangement) -> Counter[tuple[object, ...]]:
    change = arrangement.contents()
    return Counter(zip(*(a.to_pylist() for a in change.rows.to_arrays(TYPES)), change.weights.tolist(), strict=True))


def totals(arrangement: Arrangement, keys: Rows) -> dict[tuple[object, ...], int]:
    answer = arrangement.find(keys)
    total: Counter[tuple[object, ...]] = Counter()
    rows = zip(answer.asked.tolist(), *(a.to_pylist() for a in answer.rows.to_arrays(TYPES)), strict=True)
    for row, weight in zip(rows, answer.weights.tolist(), strict=True):
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


# --- memory -------------------------------------------------------------------------------------------------------

WIDE = 2_000
COLUMNS = 4


def wide_run(first: int, count: int) -> Entries:
    texts = [f"{number:07}" + "x" * (WIDE - 7) for number in range(first, first + count)]
    rows = Rows.of_arrays([pa.array(range(first, first + count)), *[pa.array(texts)] * COLUMNS], count)
    return entries(rows, rows.select((0,)).hashes(), rows.hashes(), np.ones(count, dtype=np.int64), ())


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> pa.MemoryPool:
    """The pool that all long rows are in."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    monkeypatch.setattr(value_columns, "wide_pool", lambda *_: pool)
    return pool


@pytest.mark.parametrize("arranged", [False, True])
def test_a_merge_takes_one_column_beside_the_rows(pool: pa.MemoryPool, arranged: bool) -> None:
    count = 3_000
    runs = [wide_run(0, count), wide_run(count, count)]
    column = 2 * count * WIDE
    before = pool.bytes_allocated()
    assert before > 0.9 * COLUMNS * column
    merge = Merge.of(*runs)
    assert merge.nbytes == pytest.approx(column, rel=0.05)
    run = merged(runs, merge, (lambda rows, hashes: hashes.argsort(kind="stable")) if arranged else None)
    assert len(run) == 2 * count
    assert pool.max_memory() <= before + 1.05 * column
    assert pool.bytes_allocated() <= 1.05 * before, "the runs are let go of"


def test_a_merge_in_which_all_rows_go_takes_next_to_nothing(pool: pa.MemoryPool) -> None:
    run = wide_run(0, 3_000)
    undone = wide_run(0, 3_000)
    runs = [run, undone.summed(np.arange(len(undone)), -undone.weights)]
    del run, undone
    before = pool.bytes_allocated()
    merge = Merge.of(*runs)
    assert merge.nbytes == 0
    assert len(merged(runs, merge, None)) == 0
    assert pool.max_memory() <= before + 1 * value_columns._COMPARED * 3


@pytest.mark.parametrize("ordered", [False, True])
def test_few_long_rows_at_a_time_are_put_together_in_good_time(pool: pa.MemoryPool, ordered: bool) -> None:
    """Portions of 100 rows, each with fewer rows than a run has, but with many bytes."""
    of = OrderedArrangement(TYPES, (0,), ORDERS) if ordered else Arrangement(TYPES, (0,), depth=0)
    portions, count, width = 15, 100, 40_000
    for first in range(0, portions * count, count):
        texts = pa.array([f"{number:07}" + "x" * (width - 7) for number in range(first, first + count)])
        rows = Rows.of_arrays([pa.array(range(first, first + count)), texts], count)
        of.insert(Change(rows, np.ones(count, dtype=np.int64)))
        del texts, rows
    size = portions * count * width
    assert of.nbytes == pytest.approx(size, rel=0.05)
    assert len(of.settled_runs) > 0
    assert of.nbytes - sum(run.nbytes for run in of.settled_runs) < 2 * AT_ONCE
    assert pool.max_memory() <= 2.1 * size
    assert contents(of).total() == portions * count


def test_a_change_of_rows_of_uneven_length_is_kept_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "AT_ONCE", 10_000)
    put_in_order: list[int] = []
    make = kept.entries
    monkeypatch.setattr(kept, "entries", lambda rows, *more: put_in_order.append(rows.nbytes) or make(rows, *more))
    lengths = [*[3] * 500, 9_000, 8_000, *[3] * 300, 30_000]
    texts = [f"{number:07}" + "x" * length for number, length in enumerate(lengths)]
    rows = Rows.of_arrays([pa.array(range(len(texts))), pa.array(texts)], len(texts))
    of = Arrangement(TYPES, (0,), depth=0)
    of.insert(Change(rows, np.ones(len(texts), dtype=np.int64)))
    assert sorted(row[1] for row in contents(of)) == texts
    assert [size for size in put_in_order if size > 10_000] == [30_000 + 7 + 8 + 4]


@pytest.mark.parametrize(
    ("count", "width", "goes_back"), [(3, 1 << 20, True), (3, 1 << 10, False), (5_000, 600, True), (5_000, 400, False)]
)
def test_long_values_go_back_to_the_system_when_they_are_freed(
    monkeypatch: pytest.MonkeyPatch, count: int, width: int, goes_back: bool
) -> None:
    """However few they are; small blocks stay, as this costs less."""
    monkeypatch.setattr(wide_rows, "_POOL", pa.system_memory_pool())
    array = pa.array(["x" * width] * count)
    assert (wide_pool([array], count) is not None) == goes_back
    assert wide_pool([array], 0) is None
    some = pa.array(["x" * width * 100, *["y"] * count]).slice(1)  # whose buffers have the long text, too
    assert wide_pool([some], len(some)) is None

"""The order of an epoch is a function of the seed, the epoch and the sizes of the splits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.training import Shuffle
from tidegate.training.order.rank_shares import Wanted, WindowCut, share
from tidegate.training.order.reused_memory import ReusedMemory
from tidegate.training.order.shuffle import mixed, permutation, repeats, windows

from . import oracle

KEYS = st.integers(0, 2**64 - 1)


@given(st.integers(0, 300), KEYS)
def test_a_permutation_is_that_of_plain_python(count: int, key: int) -> None:
    assert permutation(count, key).tolist() == oracle.permuted(count, key)


def test_a_permutation_of_many_rows_is_that_of_plain_python_in_memory_that_is_used_again() -> None:
    arrays = ReusedMemory()
    for key in (1, 2**64 - 1):
        assert permutation(70_000, key, arrays).tolist() == oracle.permuted(70_000, key)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_a_hash_of_words_is_that_of_plain_python(words: list[int]) -> None:
    assert mixed(*words) == oracle.mixed(*words)


def test_the_order_never_changes_between_releases() -> None:
    assert permutation(10, mixed(7, 2, 0, 0)).tolist() == [0, 8, 2, 3, 1, 9, 5, 7, 4, 6]


def test_every_position_is_as_likely_for_every_row() -> None:
    count, trials = 16, 20_000
    seen = np.zeros((count, count))
    for trial in range(trials):
        seen[np.arange(count), permutation(count, mixed(trial))] += 1
    expected = trials / count
    chi_squared = ((seen - expected) ** 2 / expected).sum()
    degrees = (count - 1) ** 2
    assert abs(chi_squared - degrees) < 6 * (2 * degrees) ** 0.5


def test_neighbours_of_a_window_end_up_a_third_of_it_apart() -> None:
    count = 100_000
    places_of = np.empty(count, np.int64)
    places_of[permutation(count, mixed(3))] = np.arange(count)
    assert np.abs(np.diff(places_of)).mean() == pytest.approx(count / 3, rel=0.02)


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=1, max_size=20), st.integers(1, 60), KEYS)
def test_each_split_is_in_one_window_of_enough_rows(sizes: list[int | None], rows: int, seed: int) -> None:
    cut = windows(sizes, Shuffle(seed, rows=rows), epoch=3)
    assert sorted(split for window in cut for split in window.splits) == list(range(len(sizes)))
    read = [sum(rows if sizes[split] is None else sizes[split] or 0 for split in window.splits) for window in cut]
    assert all(count >= rows for count in read[:-1])


def test_without_a_shuffle_splits_come_one_by_one() -> None:
    assert [window.splits for window in windows([5, None, 3], None, epoch=1)] == [(0,), (1,), (2,)]


def test_epochs_have_other_orders() -> None:
    orders = {windows([1] * 20, Shuffle(1, rows=0), epoch) for epoch in range(5)}
    assert len(orders) == 5


@given(
    size=st.integers(1, 9),
    ranks=st.integers(1, 5),
    stride=st.integers(1, 3),
    rows=st.integers(0, 40),
    carried=st.integers(0, 8),
    first=st.integers(0, 6),
    data=st.data(),
)
def test_the_shares_of_a_window_are_those_of_its_batches(
    size: int, ranks: int, stride: int, rows: int, carried: int, first: int, data: st.DataObject
) -> None:
    carried = min(carried, size - 1)
    start = 0 if carried else data.draw(st.integers(0, rows))
    rank, offset = data.draw(st.integers(0, ranks - 1)), data.draw(st.integers(0, stride - 1))
    cut = WindowCut(
        wanted=Wanted(size=size, rank=rank, ranks=ranks, stride=stride, offset=offset),
        rows=rows,
        start=start,
        carried=carried,
        first=first,
    )
    stream = [("carried", at) for at in range(carried)] + [("window", at) for at in range(start, rows)]
    full = len(stream) // size
    low, high = share(size, rank, ranks)
    expected = [
        position
        for batch in range(full)
        if (first + batch) % stride == offset
        for position in stream[batch * size + low : batch * size + high]
    ] + stream[full * size :]
    positions = cut.positions()
    listed = list(range(rows)[positions]) if isinstance(positions, slice) else positions.tolist()
    assert listed == [at for origin, at in expected if origin == "window"]


def test_rows_come_by_their_weight_on_average() -> None:
    weights = np.array([0.0, 0.25, 1.0, 2.5] * 5_000)
    copies = repeats(weights, 1, 0, 0).reshape(-1, 4)
    assert copies.mean(axis=0) == pytest.approx([0, 0.25, 1, 2.5], abs=0.03)
    assert set(copies[:, 3]) == {2, 3}


@pytest.mark.parametrize("wrong", [{"seed": "7"}, {"seed": -1}, {"seed": 2**64}, {"rows": -1}, {"rows": 2.5}])
def test_a_shuffle_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(tidegate.InvalidRequest):
        Shuffle(**wrong)  # type: ignore[arg-type]

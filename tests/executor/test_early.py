"""Row-wise plans deliver while splits are still being added; the rows are the same either way."""

from __future__ import annotations

import threading

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.values import Blocked, BlockedState, Data

from .fakes import FakeEngine, running

LARGE = 1 << 17


def test_rows_come_before_the_barrier_is_asked_for() -> None:
    with running(FakeEngine(early=True)) as task:
        task.add(1)
        assert isinstance(task.next(1)[0], Data)
        task.add(2)
        assert task.next(1, 1)[0].rows == 1
        assert task.look(1, 2) == [Blocked(state=BlockedState.UNSEALED)]
        task.seal()
        assert task.epoch(1) == [1, 2]


def test_a_split_waits_for_the_numbers_before_it() -> None:
    with running(FakeEngine(early=True)) as task:
        task.add(2, sequence=2)
        assert task.look(1) == [Blocked(state=BlockedState.UNSEALED)]
        task.add(1, sequence=1)
        task.seal()
        assert task.epoch(1) == [1, 2]


def test_the_next_epoch_does_not_start_before_the_barrier_of_the_one_before() -> None:
    with running(FakeEngine(early=True)) as task:
        task.seal(a=2)
        task.add(3, sequence=3)
        task.add(1, sequence=1)
        assert task.next(1)[0].rows == 1
        assert task.look(2) == [Blocked(state=BlockedState.UNSEALED, missing={"a": (2,)})]
        task.add(2, sequence=2)
        assert task.epoch(1) == [1, 2]
        assert task.next(2)[0].rows == 1


def test_the_rows_of_the_other_sources_follow_at_the_seal() -> None:
    with running(FakeEngine(sources=("a", "b"), early=True)) as task:
        task.add(9, source="b")
        task.add(1, source="a")
        assert task.next(1)[0].rows == 1
        task.seal()
        assert task.epoch(1) == [1, 9]


def test_splits_that_have_run_early_make_room_before_the_seal() -> None:
    with running(FakeEngine(early=True), queue_bytes=20_000, spill_quota=0) as task:
        for start in range(10):
            task.add(*range(1_000))
            task.next(1, start * 1_000)
        task.seal()
        assert len(task.epoch(1)) == 10_000


def test_a_large_batch_does_not_wait_for_the_next_one() -> None:
    is_read, calls = threading.Event(), [0]

    def behind_the_reader(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls[0] += 1
        assert calls[0] == 1 or is_read.wait(20)
        return batch

    with running(FakeEngine(early=True, repeat=2, function=behind_the_reader)) as task:
        task.add(*range(LARGE))
        assert task.next(1)[0].rows == LARGE
        is_read.set()
        task.seal()
        assert len(task.epoch(1)) == 2 * LARGE


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6), st.data())
def test_rows_are_the_same_whether_they_came_early_or_at_the_seal(splits: list[list[int]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(splits))))
    expected = [value for split in splits for value in split]
    for early in (True, False):
        with running(FakeEngine(early=early)) as task:
            for index in order:
                task.add(*splits[index], sequence=index + 1)
            task.seal()
            assert task.epoch(1) == expected

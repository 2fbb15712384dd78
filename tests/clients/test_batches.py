"""The rows of epochs as they are made, in this process and over gRPC alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import tidegate
from tidegate.batch_reader import cut
from tidegate.task import Task

from ..executor.fakes import POISON
from .conftest import Start


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def values(data: pa.Table | pa.RecordBatch) -> list[int]:
    return data["x"].to_pylist()


def fed(task: Task, *epochs: list[list[int]]) -> Task:
    for splits in epochs:
        for split in splits:
            task.add_split("a", numbers(*split))
        task.request_barrier()
    task.no_more_splits()
    return task


@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_batches_of_a_size_of_which_each_epochs_last_is_short(start: Start, prefetch: int) -> None:
    task = fed(start(), [[1, 2, 3], [4], [5, 6, 7]], [], [[8, 9, 10]])
    with task.batches(rows=2, prefetch=prefetch) as batches:
        assert [values(batch) for batch in batches] == [[1, 2], [3, 4], [5, 6], [7], [8, 9], [10]]


@pytest.mark.parametrize("prefetch", [0, 4])
def test_a_loader_that_starts_again_at_a_batchs_cursor_gets_what_follows(start: Start, prefetch: int) -> None:
    task = fed(start(), [[1, 2, 3], [4, 5]], [[6, 7]])
    cursors: list[tidegate.Cursor] = []
    for batch in (batches := task.batches(rows=2, prefetch=prefetch)):
        assert batch.num_rows <= 2
        assert batches.cursor == task.cursor
        cursors.append(task.cursor)
    assert cursors == [tidegate.Cursor(1, 2), tidegate.Cursor(1, 4), tidegate.Cursor(1, 5), tidegate.Cursor(2, 2)]


@pytest.mark.parametrize("prefetch", [0, 4])
def test_the_batch_in_hand_is_not_acknowledged_and_can_be_read_again(start: Start, prefetch: int) -> None:
    task = fed(start(), [[1, 2, 3], [4, 5]], [[6, 7]])
    batches = task.batches(rows=2, prefetch=prefetch)
    assert [values(next(batches)) for _ in range(2)] == [[1, 2], [3, 4]]
    assert task.info().acknowledged <= tidegate.Cursor(1, 2)
    batches.close()
    again = Task(task.service, task.info(), tidegate.Cursor(1, 2))
    assert [x for batch in again.batches() for x in values(batch)] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("prefetch", [0, 1, 7])
@pytest.mark.parametrize("taken", [1, 2, 3, 4])
def test_what_reads_the_task_after_batches_that_were_left_goes_on_behind_them(
    start: Start, prefetch: int, taken: int
) -> None:
    task = fed(start(), [[1, 2, 3], [4, 5]], [[6, 7]], [[8]])
    left = task.batches(rows=2, prefetch=prefetch)
    seen = [value for _ in range(taken) for value in values(next(left))]
    with task.batches(rows=3, prefetch=prefetch) as batches:
        seen += values(next(batches))
    while task.cursor < tidegate.Cursor(4, 0):
        seen += values(task.read_epoch())
    assert seen == [1, 2, 3, 4, 5, 6, 7, 8]
    left.close()


@pytest.mark.parametrize("prefetch", [0, 4])
def test_batches_go_on_behind_an_epoch_that_was_skipped(inject: Start, prefetch: int) -> None:
    task = fed(inject(on_error="skip_epoch"), [[1, 2]], [[3], [POISON]], [[5, 6]])
    batches = task.batches(prefetch=prefetch)
    seen = values(next(batches))
    with pytest.raises(tidegate.EpochError):
        list(batches)
    assert task.cursor == tidegate.Cursor(3, 0)
    seen.extend(value for batch in task.batches(prefetch=prefetch) for value in values(batch))
    assert seen == [1, 2, 5, 6]


def test_rows_come_before_their_epoch_is_sealed(start: Start) -> None:
    task = start(early=True)
    task.add_split("a", numbers(1, 2))
    epoch = next(task.epochs(timeout=30))
    assert values(next(epoch)) == [1, 2]
    assert not epoch.complete
    task.add_split("a", numbers(3))
    assert values(next(epoch)) == [3]
    task.request_barrier()
    assert epoch.statistics.splits == 2
    assert list(epoch) == []


def test_what_an_epoch_tells_of_its_end_leaves_its_rows_to_be_iterated(start: Start) -> None:
    task = fed(start(), [[1, 2, 3]], [[4]])
    first, second = task.epochs(timeout=30)
    assert (first.rows, second.rows) == (3, 1)
    assert [values(batch) for batch in first.batches(2)] == [[1, 2], [3]]
    assert values(second.table()) == [4]


@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_skipped_epoch_is_an_error_at_its_place(inject: Start, prefetch: int) -> None:
    task = inject(on_error="skip_epoch")
    fed(task, [[1]], [[POISON]], [[3]])
    seen = []
    batches = task.batches(prefetch=prefetch)
    with pytest.raises(tidegate.EpochError, match="poison"):
        seen.extend(values(batch) for batch in batches)
    assert seen == [[1]]
    assert [values(batch) for batch in task.batches()] == [[3]]


def test_rows_before_an_error_come_before_it() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from numbers(1, 2, 3).to_batches()
        raise ValueError("a bad page")

    batches = cut(broken(), 2)
    assert [values(next(batches)), values(next(batches))] == [[1, 2], [3]]
    with pytest.raises(ValueError, match="a bad page"):
        next(batches)


def test_a_thread_that_reads_ahead_ends_with_its_iterator(start: Start) -> None:
    task = fed(start(), [[n] for n in range(20)])
    batches = task.batches(rows=1, prefetch=2)
    next(batches)
    batches.close()
    for thread in threading.enumerate():
        if thread.name == "tidegate-prefetch":
            thread.join(30)
            assert not thread.is_alive()
    assert list(batches) == []


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"rows": -1}, {"prefetch": -1}])
def test_a_size_that_cannot_be_is_named(start: Start, wrong: dict[str, int]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=next(iter(wrong))):
        start().batches(**wrong)

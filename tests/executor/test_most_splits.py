"""So many splits may wait, whatever is in them: a split of one row and an empty one take memory, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.adding import add_splits
from tidegate.executor.runtime.ceilings import most_splits
from tidegate.proto.errors import Exhausted
from tidegate.proto.values import AddRequest, Cursor, FileSplit, Seal, Split, Transaction

from ..planner import steps
from .fakes import Client, FakeEngine, rows, running

SMALLEST = 1
"""A `queue_bytes` for which the number of splits is the least that there is."""
MOST = most_splits(SMALLEST)

KINDS: dict[str, Callable[[], Split]] = {
    "empty": rows,
    "a file": lambda: FileSplit(path="1"),
}


def fill(task: Client, split: Callable[[], Split], count: int, source: str = "a") -> None:
    add_splits(task.manager, task.id, [(source, split(), None) for _ in range(count)])


def refusal(task: Client, split: Split, source: str = "a") -> Exhausted:
    with pytest.raises(Exhausted, match=rf"{MOST:,} splits wait, and queue_bytes allows {MOST:,}") as refused:
        add_splits(task.manager, task.id, [(source, split, None)])
    return refused.value


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_takes_no_more_splits_than_may_wait(kind: str) -> None:
    with running(queue_bytes=SMALLEST) as task:
        fill(task, KINDS[kind], MOST)
        error = refusal(task, KINDS[kind]())
        assert error.reason == "WAITS_FOR_SEAL"
        assert "request a barrier" in str(error)


def test_splits_of_one_row_count_as_splits_where_their_rows_have_room() -> None:
    room = 8 * 2 * MOST
    with running(queue_bytes=room) as task:
        fill(task, lambda: rows(1), most_splits(room))
        assert refusal(task, rows(1)).reason == "WAITS_FOR_SEAL"


def test_splits_of_all_sources_count_together() -> None:
    with running(FakeEngine(sources=("a", "b")), queue_bytes=SMALLEST) as task:
        fill(task, rows, MOST - 1, "a")
        fill(task, rows, 1, "b")
        assert refusal(task, rows(), "b").reason == "WAITS_FOR_SEAL"


def test_splits_count_until_their_epoch_is_acknowledged() -> None:
    with running(queue_bytes=SMALLEST) as task:
        fill(task, rows, MOST)
        task.seal()
        assert task.epoch(1) == []
        assert refusal(task, rows()).reason == "OUTPUT_UNREAD"
        task.manager.acknowledge(task.id, Cursor(2))
        fill(task, rows, MOST)
        assert refusal(task, rows()).reason == "WAITS_FOR_SEAL"


def test_a_split_that_is_there_is_a_duplicate_where_no_other_has_room() -> None:
    with running(queue_bytes=SMALLEST) as task:
        fill(task, rows, MOST)
        assert add_splits(task.manager, task.id, [("a", rows(), MOST)])[0][0].duplicate


def test_a_transaction_has_room_for_all_of_its_splits_or_adds_none() -> None:
    with running(queue_bytes=SMALLEST) as task:
        fill(task, rows, MOST - 1)
        two = AddRequest(splits=[("a", rows(), None)] * 2, seal=Seal())
        with pytest.raises(Exhausted, match=f"{MOST - 1:,} splits wait") as refused:
            task.manager.transact(task.id, Transaction(application="x", version=1), two)
        assert refused.value.reason == "WAITS_FOR_SEAL"
        assert task.info().sources[0].last_added == MOST - 1
        fill(task, rows, 1)


def test_splits_that_go_to_disk_cost_in_proportion_however_many_wait_already() -> None:
    def work(count: int) -> int:
        with running(queue_bytes=SMALLEST) as task:
            return steps.of(lambda: fill(task, lambda: rows(1), count))

    work(1)
    assert work(800) < 1.25 * 4 * work(200)


def test_a_task_has_a_quarter_as_many_epochs_that_are_not_acknowledged() -> None:
    with running(queue_bytes=SMALLEST) as task:
        for epoch in range(1, MOST // 4 + 1):
            task.seal()
            assert task.epoch(epoch) == []
        with pytest.raises(Exhausted, match=r"250 epochs are not acknowledged, and queue_bytes allows 250") as refused:
            task.seal()
        assert refused.value.reason == "OUTPUT_UNREAD"
        task.manager.acknowledge(task.id, Cursor(2))
        assert task.seal() == MOST // 4 + 1


def test_larger_queues_have_more_splits() -> None:
    assert most_splits(64 << 20) == 131_072

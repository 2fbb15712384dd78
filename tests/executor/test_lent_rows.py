"""Rows of a caller in this process that are too many for the queue's memory: its own memory has them anyway."""

from __future__ import annotations

import threading
import weakref

import pyarrow as pa
import pytest

from tidegate.executor.ledger.split_book import AcceptedSplit
from tidegate.proto.errors import Exhausted, Refused
from tidegate.proto.values import AddRequest, Cursor, InlineSplit, Seal

from ..waiting import until
from .fakes import Client, FakeEngine, batch, rows, running

MANY = 1_000
BYTES = 8 * MANY


def values(start: int = 0) -> list[int]:
    return list(range(start, start + MANY))


def lend(
    task: Client,
    split: InlineSplit,
    sequence: int,
    epoch: int = 1,
    acknowledge: Cursor | None = None,
    **through: int,
) -> None:
    """Add a split as `run_epoch` does, and seal its epoch."""
    seal = Seal(through=through or {"a": sequence})
    request = AddRequest(splits=[("a", split, sequence)], epoch=epoch, seal=seal)
    task.manager.run_epoch(task.id, request, Cursor(epoch), acknowledge=acknowledge)


def spilled(task: Client) -> int:
    return task.info().statistics.spilled_bytes


def copied(some: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, so that the task's output has nothing of its input."""
    return batch(*some.column(0).to_pylist())


def test_rows_whose_epoch_runs_at_once_are_not_written_to_the_disk() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate), queue_bytes=BYTES // 2) as task:
        lend(task, rows(*values()), 1)
        assert spilled(task) == 0
        gate.set()
        assert task.epoch(1) == values()
        assert spilled(task) == 0


def test_used_rows_are_let_go_before_anybody_acknowledges_them_and_are_still_compared() -> None:
    with running(FakeEngine(function=copied), queue_bytes=BYTES // 2) as task:
        split = rows(*values())
        lent = weakref.ref(split.batches[0])
        lend(task, split, 1)
        assert task.epoch(1) == values()
        del split
        until(lambda: lent() is None)
        assert task.add(*values(), sequence=1).duplicate
        with pytest.raises(Refused) as refused:
            task.add(*values(1), sequence=1)
        assert refused.value.reason == "SEQUENCE_REUSED"


def test_used_rows_are_let_go_when_the_next_epoch_runs() -> None:
    with running(FakeEngine(function=copied), queue_bytes=BYTES // 2, spill_quota=3 * BYTES) as task:
        split = rows(*values())
        lent = weakref.ref(split.batches[0])
        lend(task, split, 1)
        assert task.epoch(1) == values()
        del split
        lend(task, rows(*values(1)), 2, epoch=2)
        assert task.epoch(2) == values(1)
        assert lent() is None


def test_used_rows_are_let_go_when_the_task_has_finished() -> None:
    with running(FakeEngine(function=copied), queue_bytes=BYTES // 2) as task:
        split = rows(*values())
        lent = weakref.ref(split.batches[0])
        lend(task, split, 1)
        task.end()
        assert task.epoch(1) == values()
        assert task.finished(2)
        del split
        until(lambda: lent() is None)


def test_rows_that_are_acknowledged_by_the_next_epoch_need_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    monkeypatch.setattr(AcceptedSplit, "fingerprint", lambda split, _: taken.append(split.origin) or b"")
    with running(queue_bytes=BYTES // 2, spill_quota=2 * BYTES) as task:
        for epoch in range(1, 4):
            lend(task, rows(*values(epoch)), epoch, epoch=epoch, acknowledge=Cursor(epoch))
            assert task.epoch(epoch) == values(epoch)
        assert taken == []
        assert spilled(task) == 0


def test_used_rows_make_room_for_rows_that_are_lent_behind_them() -> None:
    with running(FakeEngine(function=copied), queue_bytes=BYTES // 2, spill_quota=2 * BYTES) as task:
        for epoch in range(1, 4):
            lend(task, rows(*values(epoch)), epoch, epoch=epoch)
            assert task.epoch(epoch) == values(epoch)
        assert spilled(task) == 0


def test_lent_rows_may_be_repeated_while_their_epoch_runs() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate), queue_bytes=BYTES // 2) as task:
        lend(task, rows(*values()), 1)
        assert task.add(*values(), sequence=1).duplicate
        with pytest.raises(Refused):
            task.add(*values(1), sequence=1)
        gate.set()
        assert task.epoch(1) == values()


def test_rows_of_an_epoch_that_waits_for_other_splits_go_to_the_disk() -> None:
    with running(queue_bytes=BYTES // 2) as task:
        lend(task, rows(*values()), 2, a=2)
        assert spilled(task) >= BYTES
        task.add(7, sequence=1)
        assert task.epoch(1) == [7, *values()]


def test_rows_behind_an_epoch_that_still_runs_go_to_the_disk() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate), queue_bytes=BYTES // 2) as task:
        task.add(7)
        task.seal()
        lend(task, rows(*values()), 2, epoch=2)
        assert spilled(task) >= BYTES
        gate.set()
        assert task.epoch(1) == [7]
        assert task.epoch(2) == values()


def test_rows_whose_seal_is_refused_go_to_the_disk_and_stay_added() -> None:
    with running(queue_bytes=BYTES // 2) as task:
        with pytest.raises(Refused):
            lend(task, rows(*values()), 2, a=1)
        assert spilled(task) >= BYTES
        task.add(7, sequence=1)
        task.seal()
        assert task.epoch(1) == [7, *values()]


def test_lent_rows_have_room_on_the_disk_and_are_refused_without() -> None:
    with running(queue_bytes=BYTES // 2, spill_quota=BYTES) as task:
        with pytest.raises(Exhausted) as refused:
            lend(task, rows(*values()), 1)
        assert refused.value.reason == "SPLIT_TOO_LARGE"
    with running(queue_bytes=BYTES // 2, spill_quota=2 * BYTES) as task:
        for epoch in range(1, 6):
            lend(task, rows(*values(epoch)), epoch, epoch=epoch)
            assert task.epoch(epoch) == values(epoch)


def test_a_deleted_task_lets_lent_rows_go() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate), queue_bytes=BYTES // 2) as task:
        split = rows(*values())
        lent = weakref.ref(split.batches[0])
        lend(task, split, 1)
        del split
        task.manager.delete_task(task.id)
        until(lambda: lent() is None)

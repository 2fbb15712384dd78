"""Durable tasks that have failed: they stay so over a restart, and go on once they are recovered."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.executor.journal.durable_tasks import StoredTask
from tidegate.executor.journal.journal_database import JournalDatabase
from tidegate.executor.journal.task_journal import DurableTask
from tidegate.executor.tasks import epoch_loop
from tidegate.proto.errors import ExecutionError, NotFound, OutOfRange, Refused, TaskFailed, Unavailable
from tidegate.proto.values import Barrier, Cursor, Mode, OnError, TaskPhase

from ..fakes import POISON, Client, CountingEngine, FakeEngine, counting
from ..plans import filtered, plan, read, summed
from .restarts import Restarts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        yield restarts


def durable(folder: Path) -> tidegate.Client:
    """A service whose tasks outlive it, and that may read the folder."""
    return tidegate.local(data=folder / "data", roots=[folder])


def poisoned(service: Restarts, **options: object) -> Client:
    """A task that has failed at epoch 2, of which epoch 1 is not acknowledged."""
    task = service.create(**options)
    for values in ((1,), (2, POISON)):
        for value in values:
            task.add(value)
        task.seal()
    assert task.epoch(1) == [1]
    with pytest.raises(TaskFailed, match="poison"):
        task.epoch(2)
    return task


def test_a_task_that_has_failed_has_failed_after_a_restart_and_its_epochs_before_are_there(service: Restarts) -> None:
    task = poisoned(service)
    service.engine.function = lambda batch: batch.slice(0, 0)
    task = service.restart(task)
    assert task.epoch(1) == []
    ran = len(service.engine.computations[-1].clocks)
    with pytest.raises(TaskFailed, match="poison"):
        task.epoch(2)
    assert len(service.engine.computations[-1].clocks) == ran == 1  # epoch 2 is not computed again


def test_a_late_acknowledgement_is_not_lost_when_a_task_goes_on(service: Restarts) -> None:
    task = poisoned(service)
    service.manager.acknowledge(task.id, Cursor(2))
    assert service.manager.recover_task(task.id, [("a", 3)]).acknowledged == Cursor(2)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_task_goes_on_without_its_poison_split_and_says_so_from_then_on(service: Restarts, restarts: bool) -> None:
    task = poisoned(service)
    if restarts:
        task = service.restart(task)
        task.epoch(1)
    info = service.manager.recover_task(task.id, [("a", 3)])
    assert info.state in (TaskPhase.RECOVERING, TaskPhase.RUNNING)
    warning = "split 3 of source 'a' (epoch 2) was left out by a recovery"
    assert warning in info.warnings
    assert [task.epoch(epoch) for epoch in (1, 2)] == [[1], [2]]
    service.manager.acknowledge(task.id, Cursor(3))
    service.durable.flush()
    for _ in range(2):
        task = service.restart(task)
        assert warning in task.info().warnings
    task.add(4)
    task.seal(3)
    assert task.epoch(3) == [4]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_reader_in_an_epoch_that_has_lost_a_split_reads_it_from_its_start(service: Restarts, restarts: bool) -> None:
    task = service.create()
    for values in ((1, 2), (3, 4)):
        task.add(*values)
        task.seal()
    task.add(POISON)
    task.seal()
    assert [task.epoch(epoch) for epoch in (1, 2)] == [[1, 2], [3, 4]]
    service.manager.acknowledge(task.id, Cursor(1, 1))
    with pytest.raises(TaskFailed):
        task.epoch(3)
    service.manager.recover_task(task.id, [("a", 1), ("a", 3)])
    if restarts:
        service.durable.flush()
        task = service.restart(task)
    assert task.epoch(2, 1) == [4]  # an epoch with all of its splits
    with pytest.raises(OutOfRange) as raised:
        task.epoch(1, 1)
    assert raised.value.reason == "EPOCH_RESTARTED"
    assert task.epoch(1) == []


def test_the_epochs_behind_a_split_that_is_left_out_are_read_from_their_start_if_they_have_its_state(
    tmp_path: Path,
) -> None:
    with Restarts(tmp_path, CountingEngine()) as service:
        task = service.create(mode=Mode.CONTINUOUS)
        for epoch in (1, 2, 3):
            task.add(epoch, epoch)
            task.seal()
            task.epoch(epoch)
        task.add(POISON)
        task.seal()
        with pytest.raises(TaskFailed):
            task.epoch(4)
        service.manager.recover_task(task.id, [("a", 2), ("a", 4)])
        assert task.epoch(1, 1) == [counting(1, 1)]
        with pytest.raises(OutOfRange) as raised:
            task.epoch(3, 1)
        assert raised.value.reason == "EPOCH_RESTARTED"
        assert task.epoch(3) == [counting(3, 2), counting(3, 3)]


def test_state_goes_on_from_its_checkpoint_without_the_split(tmp_path: Path) -> None:
    with Restarts(tmp_path, CountingEngine()) as service:
        task = service.create(mode=Mode.CONTINUOUS, checkpoint_epochs=1)
        for epoch in (1, 2, 3):
            task.add(epoch)
            task.seal()
            assert task.epoch(epoch) == [counting(epoch, epoch - 1)]
            service.manager.acknowledge(task.id, Cursor(epoch + 1))
            service.settle()
        task.add(POISON)
        task.add(4)
        task.seal()
        with pytest.raises(TaskFailed, match="poison"):
            task.epoch(4)
        service.manager.recover_task(task.id, [("a", 4)])
        assert task.epoch(4) == [counting(4, 3)]
        assert len(service.engine.computations[-1].clocks) == 1
        task = service.restart(task)
        assert task.epoch(4) == [counting(4, 3)]


def test_no_restart_goes_on_from_a_checkpoint_that_has_a_split_which_was_left_out(tmp_path: Path) -> None:
    with Restarts(tmp_path, CountingEngine()) as service:
        task = service.create(mode=Mode.CONTINUOUS, checkpoint_epochs=1)
        for value in (1, 2, 3, POISON):
            task.add(value)
            task.seal()
            if value == 1:
                assert task.epoch(1) == [counting(1, 0)]
                service.manager.acknowledge(task.id, Cursor(2))
                service.settle()
        with pytest.raises(TaskFailed):
            task.epoch(4)
        service.settle()
        assert service.durable.checkpoints.epochs(task.id) == [1, 2]  # no reader has acknowledged epoch 2
        service.manager.recover_task(task.id, [("a", 2), ("a", 4)])
        assert task.epoch(2) == []
        service.manager.acknowledge(task.id, Cursor(3))
        service.settle()
        assert service.restart(task).epoch(3) == [counting(3, 1)]


def test_a_task_that_fails_before_its_epoch_is_sealed_has_failed_after_a_restart(tmp_path: Path) -> None:
    file, away = tmp_path / "t.parquet", tmp_path / "away.parquet"
    pq.write_table(pa.table({"k": [1, 2], "v": [1, 2]}), file)

    with durable(tmp_path) as client:
        task = client.create_task(plan(filtered(read("t", "k", "v"), 1, 1), "k", "v"))
        task.add_split("t", str(file))
    file.rename(away)
    with durable(tmp_path) as client, pytest.raises(TaskFailed):
        next(client.task(task.id).batches())
    away.rename(file)
    with durable(tmp_path) as client:
        task = client.task(task.id)
        with pytest.raises(TaskFailed):
            next(task.batches())
        task.recover()
        finish(task)


def test_an_epoch_that_was_skipped_is_skipped_after_a_restart_too(service: Restarts) -> None:
    task = service.create(on_error=OnError.SKIP_EPOCH)
    for value in (1, POISON, 3):
        task.add(value)
        task.seal()
    task.epoch(3)
    task = service.restart(task)
    (barrier,) = task.next(2)
    assert isinstance(barrier, Barrier)
    assert "poison" in barrier.error.message
    assert task.epoch(3) == [3]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("on_error", list(OnError))
def test_an_epoch_whose_engine_has_ended_is_computed_by_the_next_one(
    service: Restarts, on_error: OnError, restarts: bool
) -> None:
    def ended(_: pa.RecordBatch) -> pa.RecordBatch:
        raise ExecutionError("its JVM is gone", reason="SPARK_ENDED")

    service.engine.function = ended
    task = service.create(on_error=on_error)
    task.add(1)
    task.seal()
    with pytest.raises(TaskFailed, match="its JVM is gone"):
        task.epoch(1)
    service.engine.function = lambda batch: batch
    if restarts:
        task = service.restart(task)
    else:
        service.manager.recover_task(task.id)
    assert task.epoch(1) == [1]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_recovery_that_is_asked_for_again_is_made_once(service: Restarts, restarts: bool) -> None:
    task = poisoned(service)
    service.manager.recover_task(task.id, [("a", 3)], request="one")
    if restarts:
        task = service.restart(task)
    info = service.manager.recover_task(task.id, [("a", 3)], request="one")
    assert sum("was left out" in warning for warning in info.warnings) == 1
    with pytest.raises(Refused) as refused:
        service.manager.recover_task(task.id, [("a", 3)], request="another")
    assert refused.value.reason == "NOT_FAILED"
    assert [task.epoch(epoch) for epoch in (1, 2)] == [[1], [2]]


def test_a_recovery_that_found_a_full_disk_is_made_when_it_is_asked_for_again(
    service: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = poisoned(service)
    full = sqlite3.OperationalError("disk full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    def fail(_: object) -> None:
        raise full

    service.durable.flush()
    with monkeypatch.context() as disk:
        disk.setattr(JournalDatabase, "commit", lambda _, statements: fail(list(statements)))
        with pytest.raises(Unavailable, match="repeat the call"):
            service.manager.recover_task(task.id, [("a", 3)], request="one")
    info = service.manager.recover_task(task.id, [("a", 3)], request="one")
    assert info.state in (TaskPhase.RECOVERING, TaskPhase.RUNNING)
    assert sum("was left out" in warning for warning in info.warnings) == 1
    assert [task.epoch(epoch) for epoch in (1, 2)] == [[1], [2]]


def test_a_task_that_is_deleted_while_it_fails_leaves_no_record_to_the_next_task(
    service: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = service.create()
    deleted = threading.Event()

    def delete_first(error: Exception, *_: object) -> Exception:
        service.manager.delete_task(task.id)
        deleted.set()
        return error

    with monkeypatch.context() as failing:
        failing.setattr(epoch_loop, "with_splits", delete_first)
        task.add(POISON)
        task.seal()
        assert deleted.wait(60)
        assert service.engine.computations[-1].closed.wait(60)
    service.durable.flush()
    service.restart()
    after = service.create()
    for value in (1, 2, 3):
        after.add(value)
    after.seal()
    assert sorted(after.epoch(1)) == [1, 2, 3]


def test_a_task_whose_records_cannot_be_read_when_it_is_recovered_is_back_at_the_next_call(
    service: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = poisoned(service)
    with monkeypatch.context() as patches:
        patches.setattr(service.durable, "read_again", unreadable)
        with pytest.raises(Unavailable):
            service.manager.recover_task(task.id, [("a", 3)])
    assert [(info.id, info.state) for info in service.manager.list_tasks()] == [(task.id, TaskPhase.RECOVERING)]
    assert [task.epoch(epoch) for epoch in (1, 2)] == [[1], [2]]


def unreadable(journal: DurableTask) -> StoredTask:
    raise Unavailable("the disk is full", reason="JOURNAL_FAILED")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_task_that_has_failed_and_is_cancelled_does_not_go_on(service: Restarts, restarts: bool) -> None:
    task = poisoned(service)
    if restarts:
        task = service.restart(task)
        with pytest.raises(TaskFailed):
            task.epoch(2)
    service.manager.cancel_task(task.id)
    for _ in range(2):
        assert task.info().state is TaskPhase.CANCELLED
        with pytest.raises(Refused, match="it is cancelled") as refused:
            service.manager.recover_task(task.id, [("a", 3)])
        assert refused.value.reason == "NOT_FAILED"
        task = service.restart(task)


def test_a_task_that_is_being_recovered_is_deleted_once_it_is_back(service: Restarts) -> None:
    task = poisoned(service)
    refusals: list[Unavailable] = []
    read = service.durable.read_again

    def deleting(journal: DurableTask) -> StoredTask:
        with pytest.raises(Unavailable) as refused:
            service.manager.delete_task(task.id)
        refusals.append(refused.value)
        return read(journal)

    service.durable.read_again = deleting  # type: ignore[method-assign]
    service.manager.recover_task(task.id, [("a", 3)])
    assert [refusal.reason for refusal in refusals] == ["RECOVERING"]
    service.manager.delete_task(task.id)
    with pytest.raises(NotFound):
        task.info()


def test_what_has_not_failed_and_what_is_not_there_is_refused(service: Restarts) -> None:
    task = service.create()
    with pytest.raises(Refused) as refused:
        service.manager.recover_task(task.id)
    assert refused.value.reason == "NOT_FAILED"
    failed = poisoned(service)
    with pytest.raises(NotFound) as unknown:
        service.manager.recover_task(failed.id, [("a", 17)])
    assert unknown.value.reason == "UNKNOWN_SPLIT"


def test_a_task_that_is_not_durable_is_refused() -> None:
    from ..fakes import PLAN, TaskOptions, manager_of

    manager = manager_of(FakeEngine(), threads=1)
    task = Client(manager, manager.create_task(PLAN, TaskOptions(), {}))
    task.add(POISON)
    task.seal()
    with pytest.raises(TaskFailed):
        task.epoch(1)
    with pytest.raises(Refused) as refused:
        manager.recover_task(task.id)
    assert refused.value.reason == "NOT_DURABLE"
    manager.close()


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_that_is_back_lets_its_task_go_on(tmp_path: Path, table: bool, restarts: bool) -> None:
    file, away = tmp_path / "t.parquet", tmp_path / "away.parquet"
    pq.write_table(pa.table({"k": [1, 2], "v": [1, 2]}), file)
    passed = plan(filtered(read("t", "k", "v"), 1, 1), "k", "v")

    with durable(tmp_path) as client:
        task = client.create_task(passed, tables={"t": str(file)} if table else None)
        if not table:
            task.add_split("t", str(file))
    file.rename(away)
    with durable(tmp_path) as client:
        task = client.task(task.id)
        if task.info().state is not TaskPhase.FAILED:
            task.no_more_splits()
        with pytest.raises(TaskFailed):
            task.read_epoch()
        if not restarts:
            away.rename(file)
            task.recover()
            finish(task)
    if restarts:
        with durable(tmp_path) as client:
            task = client.task(task.id)
            with pytest.raises(TaskFailed):
                task.read_epoch()
            assert task.info().state is TaskPhase.FAILED
            away.rename(file)
            task.recover()
            finish(task)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_restart_skips_no_epoch_whose_file_is_away(tmp_path: Path, restarts: bool) -> None:
    file, away = tmp_path / "t.parquet", tmp_path / "away.parquet"
    pq.write_table(pa.table({"k": [1, 2], "v": [1, 2]}), file)
    with durable(tmp_path) as client:
        task = client.create_task(plan(filtered(read("t", "k", "v"), 1, 1), "k", "v"), on_error="skip_epoch")
        for split in (str(file), pa.table({"k": [3], "v": [3]})):
            task.add_split("t", split)
            task.request_barrier()
        assert task.read_epoch().num_rows == 1
    file.rename(away)
    for _ in range(1 + restarts):
        with durable(tmp_path) as client, pytest.raises(TaskFailed) as failed:
            client.task(task.id).read_epoch()
        assert failed.value.reason in ("FILE_MISSING", "FILE_CHANGED")
    with durable(tmp_path) as client:
        task = client.task(task.id)
        with pytest.raises(TaskFailed):
            task.read_epoch()
        away.rename(file)
        task.recover()
        assert task.read_epoch().to_pylist() == [{"k": 2, "v": 2}]
        assert task.read_epoch().to_pylist() == [{"k": 3, "v": 3}]


def test_an_epoch_that_was_skipped_for_its_file_is_skipped_after_a_restart_too(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [1, 2], "v": [1, 2]}), file)
    with durable(tmp_path) as client:
        task = client.create_task(plan(summed(read("t", "k", "v")), "k", "total"), on_error="skip_epoch")
        task.add_split("t", str(file))
        file.unlink()
        task.request_barrier()
        with pytest.raises(tidegate.EpochError, match="cannot be read any more"):
            client.task(task.id).read_epoch()
    with durable(tmp_path) as client, pytest.raises(tidegate.EpochError, match="cannot be read any more"):
        client.task(task.id).read_epoch()


def finish(task: tidegate.Task) -> None:
    task.no_more_splits()
    assert task.read_epoch().to_pylist() == [{"k": 2, "v": 2}]

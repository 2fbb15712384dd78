"""Durable tasks with state take checkpoints by themselves: a restart goes on from the newest one that is of use."""

from __future__ import annotations

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.executor.checkpoints.regular_checkpoints import RegularCheckpoints
from tidegate.executor.checkpoints.taking import Checkpoints
from tidegate.executor.journal.inspection import DataInspection, TaskEntry
from tidegate.proto.errors import TaskFailed
from tidegate.proto.values import AddRequest, Cursor, Mode, Seal, TaskOptions, TaskPhase, Transaction

from ..fakes import Client, CountingEngine, counting, rows
from .restarts import Restarts
from .test_recovery import eventually


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path, CountingEngine()) as restarts:
        yield restarts


def create(service: Restarts, **options: object) -> Client:
    return service.create(mode=Mode.CONTINUOUS, **{"checkpoint_epochs": 2, "checkpoint_seconds": 0, **options})


def checkpoints(service: Restarts, task: Client) -> list[int]:
    return service.durable.checkpoints.epochs(task.id)


def entry(service: Restarts) -> TaskEntry:
    (entry,) = DataInspection(service.data).tasks()
    return entry


def run(service: Restarts, task: Client, *epochs: int, reads: bool = True) -> None:
    """Run epochs of a row each; with `reads`, acknowledge each, and wait until its checkpoint is written if it has
    one.
    """
    for epoch in epochs:
        task.add(epoch, sequence=epoch)
        task.seal(epoch)
        assert task.epoch(epoch) == [counting(epoch, epoch - 1)]
        if reads:
            service.manager.acknowledge(task.id, Cursor(epoch + 1))
        service.settle()


def computed(service: Restarts) -> int:
    """The number of epochs that the newest computation has run."""
    return len(service.engine.computations[-1].clocks)


def test_a_restart_computes_only_the_epochs_behind_the_newest_checkpoint(service: Restarts) -> None:
    task = create(service)
    run(service, task, *range(1, 8))
    assert checkpoints(service, task) == [4, 6]
    task = service.restart(task)
    run(service, task, 8)
    assert computed(service) == 2  # 7 and 8


def test_the_journal_is_cut_at_the_oldest_checkpoint_and_nothing_is_kept_before_it(service: Restarts) -> None:
    task = create(service)
    run(service, task, *range(1, 4))
    assert entry(service).splits == 3
    run(service, task, *range(4, 60))
    assert (entry(service).checkpoints, entry(service).splits) == (2, 3)  # those behind epoch 56
    assert checkpoints(service, task) == [56, 58]
    files = sum(1 for _ in (service.data / "checkpoints" / task.id).iterdir())
    assert files == 4  # two manifests, and a part of each


def test_a_reader_that_does_not_acknowledge_keeps_one_checkpoint_and_every_row(service: Restarts) -> None:
    task = create(service, max_pending_epochs=100)
    run(service, task, *range(1, 10), reads=False)
    assert checkpoints(service, task) == [2]
    task = service.restart(task)
    assert [task.epoch(epoch) for epoch in range(1, 10)] == [[counting(epoch, epoch - 1)] for epoch in range(1, 10)]


def test_the_rows_of_an_epoch_that_was_read_in_part_are_there_again(service: Restarts) -> None:
    task = create(service, checkpoint_epochs=1)
    run(service, task, 1, 2)
    task.add(7, 8, 9, sequence=3)
    task.seal(3)
    task.epoch(3)
    service.manager.acknowledge(task.id, Cursor(3, 2))
    service.durable.flush()
    task = service.restart(task)
    assert task.epoch(3, 2) == [counting(9, 4)]
    assert computed(service) == 1


def test_seconds_of_work_count_too(service: Restarts) -> None:
    task = create(service, checkpoint_epochs=0, checkpoint_seconds=1e-9)
    run(service, task, 1, 2)
    assert checkpoints(service, task) == [1, 2]


def test_without_either_no_checkpoint_is_taken_and_all_epochs_are_computed_again(service: Restarts) -> None:
    task = create(service, checkpoint_epochs=0)
    run(service, task, *range(1, 6))
    assert checkpoints(service, task) == []
    task = service.restart(task)
    run(service, task, 6)
    assert computed(service) == 6


def test_tasks_without_state_take_none(service: Restarts) -> None:
    task = service.create(checkpoint_epochs=1)
    for epoch in (1, 2, 3):
        task.add(epoch)
        task.seal()
        task.epoch(epoch, acknowledge=True)
    service.settle()
    assert not (service.data / "checkpoints").exists()


class SlowDisk(LocalDisk):
    """Syncs of files wait for `go_on`."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.waiting = threading.Event()

    def sync(self, file: BinaryIO) -> None:
        self.waiting.set()
        assert self.go_on.wait(20)
        super().sync(file)


def test_epochs_run_while_a_checkpoint_is_written_and_the_state_is_that_of_its_barrier(tmp_path: Path) -> None:
    disk = SlowDisk()
    with Restarts(tmp_path, CountingEngine(), disk) as service:
        task = create(service)
        disk.go_on.clear()
        for epoch in range(1, 10):
            task.add(epoch)
            task.seal()
            assert task.epoch(epoch, acknowledge=True) == [counting(epoch, epoch - 1)]
        assert disk.waiting.wait(20)
        assert checkpoints(service, task) == []
        disk.go_on.set()
        service.settle()
        assert checkpoints(service, task) == [2]
        task = service.restart(task)
        assert task.epoch(9) == [counting(9, 8)]
        assert computed(service) == 7


class StuckDisk(LocalDisk):
    """Files cannot be removed."""

    def remove(self, path: Path) -> None:
        raise OSError(30, "Read-only file system", str(path))


@pytest.mark.parametrize("disk", [LocalDisk(), StuckDisk()], ids=["removes", "cannot remove"])
def test_no_checkpoint_is_due_until_those_that_were_let_go_are_removed(disk: LocalDisk, tmp_path: Path) -> None:
    later: deque[Callable[[], None]] = deque()
    behind = SimpleNamespace(call=later.append, check=lambda: None)
    checkpoints = Checkpoints("task", CheckpointFolder(disk, tmp_path), origin=None)  # type: ignore[arg-type]
    regular = RegularCheckpoints(checkpoints, behind, TaskOptions(checkpoint_epochs=1), kept=[1, 2, 3])
    committed = regular.let_go(Cursor(4))
    assert committed is not None
    assert not regular.due(1.0, Cursor(4), presses=True)
    committed()
    assert not regular.due(1.0, Cursor(4), presses=True)
    later.popleft()()
    assert regular.due(1.0, Cursor(4), presses=True)


class FullDisk(LocalDisk):
    """A disk that is `full`, or not."""

    full = False

    def create(self, path: Path) -> BinaryIO:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().create(path)


def test_a_checkpoint_that_cannot_be_written_is_taken_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegate.events")
    disk = FullDisk()
    with Restarts(tmp_path, CountingEngine(), disk) as service:
        task = create(service)
        disk.full = True
        run(service, task, 1, 2, 3)
        assert "event=checkpoint_failed" in caplog.text
        assert "No space left" in caplog.text
        disk.full = False
        run(service, task, 4)
        assert checkpoints(service, task) == [4]
        task = service.restart(task)
        run(service, task, 5)


@pytest.mark.parametrize("damage", ["manifest", "part"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(service: Restarts, damage: str) -> None:
    task = create(service)
    run(service, task, *range(1, 8))
    service.kill()
    damaged(service, task, damage, newest=True)
    assert DataInspection(service.data).check().problems
    service.start()
    task = service.attach(task)
    run(service, task, 8)
    assert computed(service) == 4  # 5 to 8
    assert not DataInspection(service.data).check().problems
    run(service, task, 9, 10, 11)
    assert computed(service) == 7


def test_checkpoints_of_another_task_are_damaged_ones(service: Restarts) -> None:
    one, two = create(service), create(service)
    run(service, one, *range(1, 8))
    for epoch in range(1, 8):
        two.add(epoch + 100)
        two.seal()
        two.epoch(epoch, acknowledge=True)
        service.manager.acknowledge(two.id, Cursor(epoch + 1))
        service.settle()
    service.kill()
    folder = service.data / "checkpoints"
    shutil.rmtree(folder / one.id)
    (folder / two.id).rename(folder / one.id)
    service.start()
    for task in (one, two):
        with pytest.raises(TaskFailed) as failed:
            service.attach(task).epoch(8)
        assert failed.value.reason == "CHECKPOINT_DAMAGED"


def test_a_manifest_under_the_name_of_another_one_is_damaged(service: Restarts) -> None:
    task = create(service)
    run(service, task, *range(1, 8))
    run(service, task, 8, reads=False)
    service.kill()
    folder = service.data / "checkpoints" / task.id
    shutil.copy(folder / "epoch-8.json", folder / "epoch-6.json")
    service.start()
    assert service.attach(task).epoch(8) == [counting(8, 7)]
    assert computed(service) == 4  # 5 to 8


@pytest.mark.parametrize("lost", [False, True], ids=["rows are there", "rows of another task are lost"])
def test_checkpoints_of_a_newer_journal_are_not_those_of_an_older_one(service: Restarts, lost: bool) -> None:
    service.create().add(*range(20_000))
    task = create(service)
    run(service, task, 1, 2)
    service.kill()
    older, service.data = service.data, service.data.with_name("newer")
    shutil.copytree(older, service.data)
    service.start()
    run(service, service.attach(task), *range(3, 8))
    service.kill()
    shutil.rmtree(older / "checkpoints")
    shutil.copytree(service.data / "checkpoints", older / "checkpoints")
    if lost:
        shutil.rmtree(older / "rows")
    service.data = older
    service.start()
    task = service.attach(task)
    assert checkpoints(service, task) == []
    for epoch in range(3, 8):
        task.add(0, 0)
        task.seal()
        task.epoch(epoch)
        service.manager.acknowledge(task.id, Cursor(epoch + 1))
        service.settle()
    task = service.restart(task)
    task.add(8)
    task.seal()
    assert task.epoch(8) == [counting(8, 2 + 5 * 2)]


def test_a_checkpoint_without_the_records_behind_it_is_not_one_to_go_on_from(service: Restarts) -> None:
    """A service may be killed before it has removed a checkpoint, but not before its records."""
    task = create(service, checkpoint_epochs=1)
    run(service, task, 1, 2)
    before = service.folder / "before"
    shutil.copytree(service.data / "checkpoints" / task.id, before)
    run(service, task, *range(3, 7))
    service.kill()
    damaged(service, task, "part", newest=False)
    shutil.copytree(before, service.data / "checkpoints" / task.id, dirs_exist_ok=True)
    service.start()
    with pytest.raises(TaskFailed) as raised:
        service.attach(task).epoch(7)
    assert raised.value.reason == "CHECKPOINT_DAMAGED"


def test_a_task_without_a_whole_checkpoint_fails_alone_and_says_why(service: Restarts) -> None:
    other, task = create(service), create(service)
    run(service, other, 1)
    run(service, task, *range(1, 8))
    service.kill()
    damaged(service, task, "part", newest=False)
    service.start()
    other, task = service.attach(other), service.attach(task)
    with pytest.raises(TaskFailed) as raised:
        task.epoch(8)
    assert raised.value.reason == "CHECKPOINT_DAMAGED"
    run(service, other, 2)
    assert len(DataInspection(service.data).check().problems) == 2


def damaged(service: Restarts, task: Client, damage: str, *, newest: bool) -> None:
    """Damage the newest checkpoint, or all of them."""
    folder = service.data / "checkpoints" / task.id
    manifests = sorted(folder.glob("*.json"))
    assert len(manifests) == 2
    if damage == "manifest":
        manifests[-1].write_bytes(manifests[-1].read_bytes()[:-5])
        return
    parts = sorted(folder.glob("*.arrow"), key=lambda path: path.stem not in manifests[-1].read_text())
    for part in parts[:1] if newest else parts:
        part.write_bytes(part.read_bytes()[:-1] + b"?")


def test_a_task_that_is_being_deleted_has_no_damaged_checkpoints(
    service: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, problems = create(service), list[tuple[str, ...]]()
    run(service, task, *range(1, 6))
    remove = LocalDisk.remove_folder

    def removed_in_part(disk: LocalDisk, folder: Path) -> None:
        for part in folder.glob("*.arrow"):
            part.unlink()
        problems.append(DataInspection(service.data).check().problems)
        remove(disk, folder)

    monkeypatch.setattr(LocalDisk, "remove_folder", removed_in_part)
    service.manager.delete_task(task.id)
    service.settle()
    assert problems == [()]


def test_a_deleted_task_leaves_no_checkpoint(service: Restarts) -> None:
    task, other = create(service), create(service)
    run(service, task, 1, 2, 3)
    run(service, other, 1, 2, 3)
    service.manager.delete_task(task.id)
    service.settle()
    assert [path.name for path in (service.data / "checkpoints").iterdir()] == [other.id]
    service.kill()
    (service.data / "checkpoints" / task.id).mkdir()
    (service.data / "checkpoints" / task.id / "epoch-2.json").write_text("{}")
    service.start()
    assert [path.name for path in (service.data / "checkpoints").iterdir()] == [other.id]


def test_transactions_and_ends_of_before_a_checkpoint_are_known_behind_it(service: Restarts) -> None:
    service.engine.sources = ("a", "b")
    task = create(service)
    task.end("b")
    for version in range(1, 8):
        request = AddRequest(splits=[("a", rows(version), None)], seal=Seal())
        transaction = Transaction(application="x", version=version)
        assert service.manager.transact(task.id, transaction, request).epoch == version
        assert task.epoch(version, acknowledge=True) == [counting(version, version - 1)]
        service.manager.acknowledge(task.id, Cursor(version + 1))
        service.settle()
    task = service.restart(task)
    again = service.manager.transact(task.id, transaction, request)
    assert (again.replayed, again.epoch) == (True, 7)
    assert [source.ended for source in task.info().sources] == [False, True]
    assert task.add(8).sequence == 8
    task.end()
    assert task.epoch(8) == [counting(8, 7)]
    assert task.info().state is TaskPhase.FINISHED


def test_splits_that_come_late_and_splits_of_later_epochs_are_there_behind_a_checkpoint(service: Restarts) -> None:
    task = create(service, checkpoint_epochs=1)
    for epoch in range(1, 6):
        task.seal(epoch, a=epoch)
        task.add(epoch + 1, sequence=epoch + 1)
        if epoch == 1:
            task.add(1, sequence=1)
        assert task.epoch(epoch) == [counting(epoch, epoch - 1)]
        service.manager.acknowledge(task.id, Cursor(epoch + 1))
        service.settle()
    task = service.restart(task)
    assert checkpoints(service, task) == [4, 5]
    task.seal(6)
    assert task.epoch(6) == [counting(6, 5)]
    assert computed(service) == 1


def test_many_restarts_in_a_row_give_the_rows_of_an_undisturbed_task(service: Restarts) -> None:
    task = create(service)
    for epoch in range(1, 20):
        run(service, task, epoch)
        if epoch % 3 != 1:
            task = service.restart(task)
    assert eventually(lambda: entry(service).splits <= 5)

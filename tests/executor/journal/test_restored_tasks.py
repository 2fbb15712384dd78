"""Durable tasks that were restored from a checkpoint come back, whatever has become of that checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.proto.errors import TaskFailed
from tidegate.proto.values import Cursor, Mode, Seal

from ..fakes import Client, CountingEngine, FakeEngine, counting
from .restarts import Restarts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path, CountingEngine(), checkpoints=tmp_path / "asked-for") as restarts:
        yield restarts


def run(service: Restarts, task: Client, epoch: int, checkpoint: str | None = None) -> None:
    """Run an epoch of one row, which says how many came before it."""
    task.add(epoch)
    service.manager.request_barrier(task.id, epoch, Seal(checkpoint=checkpoint))
    assert task.epoch(epoch) == [counting(epoch, epoch - 1)]


def begun(service: Restarts) -> tuple[Client, Client]:
    """A task with a checkpoint behind its first epoch, and one that goes on from there."""
    first = service.create(mode=Mode.CONTINUOUS)
    run(service, first, 1, "last")
    return first, service.create(mode=Mode.CONTINUOUS, restore=f"{first.id}/last")


def test_the_checkpoint_of_its_name_is_another_one_now(service: Restarts) -> None:
    first, task = begun(service)
    run(service, first, 2, "last")
    task = service.restart(task)
    run(service, task, 2)


def test_the_checkpoint_is_gone(service: Restarts) -> None:
    first, task = begun(service)
    shutil.rmtree(service.folder / "asked-for" / first.id)
    task = service.restart(task)
    run(service, task, 2)


def test_the_task_has_checkpoints_of_its_own_since(service: Restarts) -> None:
    first = service.create(mode=Mode.CONTINUOUS)
    run(service, first, 1, "last")
    task = service.create(mode=Mode.CONTINUOUS, restore=f"{first.id}/last", checkpoint_epochs=1)
    for epoch in range(2, 6):
        run(service, task, epoch)
        service.manager.acknowledge(task.id, Cursor(epoch + 1))
        service.settle()
    assert service.durable.checkpoints.epochs(task.id) == [4, 5]
    task = service.restart(task)
    run(service, task, 6)


def test_a_restored_task_that_is_deleted_leaves_nothing(service: Restarts) -> None:
    first, task = begun(service)
    service.manager.delete_task(task.id)
    service.settle()
    assert not (service.data / "checkpoints" / task.id).exists()
    run(service, first, 2, "last")


def test_without_its_own_it_goes_on_from_no_checkpoint_that_has_taken_the_others_place(service: Restarts) -> None:
    first, task = begun(service)
    run(service, first, 2, "last")
    shutil.rmtree(service.data / "checkpoints")
    task = service.restart(task)
    with pytest.raises(TaskFailed, match="another one has taken its place") as raised:
        task.epoch(2)
    assert raised.value.reason == "CHECKPOINT_DAMAGED"


def named_last(service: Restarts, task: Client) -> int:
    """The epoch of the checkpoint `last` of a task."""
    return CheckpointFolder(LocalDisk(), service.folder / "asked-for" / task.id).manifest("last").epoch


def test_a_name_does_not_go_back_to_an_earlier_checkpoint_while_epochs_are_computed_again(service: Restarts) -> None:
    service.engine = FakeEngine()
    service.restart()
    task, seen = service.create(), list[int]()
    for epoch in (1, 2, 3):
        task.add(epoch)
        service.manager.request_barrier(task.id, epoch, Seal(checkpoint="last"))
        task.epoch(epoch)

    def noting(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(named_last(service, task))
        return batch

    service.engine.function = noting
    task = service.restart(task)
    for epoch in (1, 2, 3):
        assert task.epoch(epoch) == [epoch]
        assert task.barrier.checkpoint == f"{task.id}/last"
    assert seen == [3, 3, 3]


def test_a_checkpoint_of_an_epoch_that_an_older_journal_does_not_have_is_replaced(service: Restarts) -> None:
    task = service.create(mode=Mode.CONTINUOUS)
    run(service, task, 1, "last")
    service.kill()
    older, service.data = service.data, service.data.with_name("newer")
    shutil.copytree(older, service.data)
    service.start()
    run(service, service.attach(task), 2, "last")
    service.kill()
    service.data = older
    service.start()
    task = service.attach(task)
    task.epoch(1)
    assert named_last(service, task) == 1

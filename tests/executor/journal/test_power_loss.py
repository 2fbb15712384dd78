"""Losses of power at every point: all that was answered is there, and no half of anything."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.executor.journal import journal_database, kept_reader
from tidegate.executor.journal.durable_tasks import DurableTasks
from tidegate.proto.errors import NotFound, TidegateError, Unavailable
from tidegate.proto.values import Cursor, Durability, Mode, Seal, TaskOptions

from ...searching import SEARCHES
from ..fakes import PLAN, Client, CountingEngine, FakeEngine, counting, manager_of
from .power_loss import (
    LossyDisk,
    Recorder,
    RecordingDisk,
    RecordingVfs,
    failing_sync,
    full,
    put,
    read_only,
    short,
    slow,
)
from .recorded_runs import PatientRun, Run, check, history


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: what is real about these disks does not have to be."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(kept_reader, "SMALL_BYTES", 400)
    monkeypatch.setattr(journal_database, "_CHECKPOINT_PAGES", 8)
    return Recorder()


@pytest.fixture
def vfs(recorder: Recorder) -> Iterator[RecordingVfs]:
    vfs = RecordingVfs(recorder)
    yield vfs
    vfs.close()


def points(recorder: Recorder) -> list[int]:
    """The points to lose power at: before and behind each sync, and where a name changes."""
    marked = [at for at, one in enumerate(recorder.operations) if one.kind not in ("write", "create")]
    return sorted({*marked, *(at + 1 for at in marked), len(recorder.operations)})


def states(lossy: LossyDisk, luck: random.Random) -> list[Callable[[], object]]:
    return [lambda: lossy.left(None), lambda: lossy.left(luck), lossy.all]


@pytest.mark.parametrize("seed", range(3))
def test_power_is_lost_at_every_sync(folder: Path, recorder: Recorder, vfs: RecordingVfs, seed: int) -> None:
    run = Run(folder / "data", recorder, vfs)
    history(run)
    at_points = set(points(recorder))
    recorded = list(recorder.operations)
    assert recorder.rewritten
    run.service.close()
    lossy, luck = LossyDisk(), random.Random(seed)
    for done in range(len(recorded) + 1):
        if done in at_points:
            left = folder / f"left-{done}"
            put(states(lossy, luck)[seed](), folder / "data", left)  # type: ignore[arg-type]
            check(left, *run.known(done))
        if done < len(recorded):
            lossy.apply(recorded[done])


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("failure", [full, failing_sync, read_only, slow])
@pytest.mark.parametrize("once", [True, False])
def test_each_write_fails_in_turn_and_nothing_is_damaged(
    folder: Path, recorder: Recorder, vfs: RecordingVfs, failure: Callable[..., None], once: bool
) -> None:
    recorder.failure, recorder.once = failure, once
    for number in failing_writes(apart=97 if failure is slow else 23):
        data = folder / f"{number}"
        recorder.operations.clear()
        recorder._tried, recorder.fail_at = 0, number
        try:
            run = Run(data, recorder, vfs)
        except (TidegateError, OSError):
            continue
        refused = ""
        try:
            history(run)
        except TidegateError as error:
            refused = error.reason
        recorder.works_again()
        run.service.close()
        check(data, run.now, run.now)
        assert refused in (("",) if failure is slow else ("", "JOURNAL_FAILED"))
        if recorder._tried < number:
            break


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("failure", [full, short, failing_sync, read_only])
@pytest.mark.parametrize("once", [True, False])
def test_each_write_fails_in_turn_and_a_refused_call_that_is_repeated_is_answered(
    folder: Path, recorder: Recorder, vfs: RecordingVfs, failure: Callable[..., None], once: bool
) -> None:
    recorder.failure, recorder.once = failure, once
    repeated = set[str]()
    for number in failing_writes(apart=29):
        data = folder / f"{number}"
        recorder.operations.clear()
        recorder._tried, recorder.fail_at = 0, number
        try:
            run = PatientRun(data, recorder, vfs)
        except (TidegateError, OSError):
            continue
        history(run)
        recorder.works_again()
        run.close()
        check(data, run.now, run.now)
        assert len(run.now.deleted) == 1
        repeated.update(run.repeated)
        if recorder._tried < number:
            break
    assert repeated
    assert not SEARCHES or {"create_task", "add_splits", "request_barrier", "delete_task"} <= repeated


def test_a_deletion_that_is_refused_on_a_full_disk_is_answered_once_it_is_durable(
    folder: Path, recorder: Recorder, vfs: RecordingVfs
) -> None:
    run = Run(folder / "data", recorder, vfs)
    task = run.create()
    recorder.fail_from_here(full)
    for _ in range(2):
        with pytest.raises(Unavailable) as raised:
            run.delete(task)
        assert raised.value.reason == "JOURNAL_FAILED"
    recorder.works_again()
    run.delete(task)
    with pytest.raises(NotFound):
        run.delete(task)
    run.service.close()
    check(folder / "data", run.now, run.now)


def failing_writes(*, apart: int) -> range:
    """The numbers of the writes to fail: every one in a long search."""
    return range(1, 400, 1 if SEARCHES else apart)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("failure", [full, short, failing_sync, read_only])
@pytest.mark.parametrize("once", [True, False])
def test_each_write_of_a_task_with_checkpoints_fails_in_turn_and_its_rows_stay_true(
    folder: Path, recorder: Recorder, vfs: RecordingVfs, failure: Callable[..., None], once: bool
) -> None:
    recorder.failure, recorder.once = failure, once
    for number in failing_writes(apart=17):
        data = folder / f"{number}"
        recorder.operations.clear()
        recorder._tried, recorder.fail_at = 0, number
        try:
            with vfs.below():
                durable = DurableTasks(data, RecordingDisk(recorder))
            service = manager_of(CountingEngine(), threads=1, durable=durable)
        except (TidegateError, OSError):
            continue
        identity, sealed, refused = "", 0, ""
        try:
            options = TaskOptions(mode=Mode.CONTINUOUS, checkpoint_epochs=1)
            task = Client(service, service.create_task(PLAN, options, {}))
            identity = task.id
            for epoch in range(1, 6):
                task.add(epoch)
                sealed = task.seal(epoch)
                assert task.epoch(epoch) == [counting(epoch, epoch - 1)]
                service.acknowledge(task.id, Cursor(epoch + 1))
                durable.flush()
        except Unavailable as error:
            refused = error.reason
        recorder.works_again()
        service.close()
        assert refused in ("", "JOURNAL_FAILED")
        if identity:
            check_counts(data, identity, sealed)
        if recorder._tried < number:
            break


def test_a_full_disk_refuses_changes_until_there_is_room_and_reads_go_on(
    folder: Path, recorder: Recorder, vfs: RecordingVfs
) -> None:
    run = Run(folder / "data", recorder, vfs)
    task, other = run.create(), run.create()
    run.add(task, [1])
    run.seal(task)
    recorder.fail_from_here(full)
    for _ in range(2):
        with pytest.raises(Unavailable) as raised:
            task.add(2, sequence=2)
        assert raised.value.reason == "JOURNAL_FAILED"
        with pytest.raises(Unavailable):
            other.add(1)
    assert task.epoch(1) == [1]
    recorder.works_again()
    task.add(2, sequence=2)
    assert other.add(1).sequence == 1
    task.seal(2)
    assert task.epoch(2) == [2]
    run.service.close()
    service = manager_of(FakeEngine(), threads=1, durable=DurableTasks(folder / "data"))
    assert Client(service, service.get_task(task.id)).epoch(2) == [2]
    service.close()


def test_after_a_failed_sync_no_change_is_believed_until_the_next_start(
    folder: Path, recorder: Recorder, vfs: RecordingVfs
) -> None:
    run = Run(folder / "data", recorder, vfs)
    task = run.create()
    run.add(task, [1])
    run.seal(task)
    recorder.fail_from_here(failing_sync)
    with pytest.raises(Unavailable):
        task.add(2, sequence=2)
    recorder.works_again()
    with pytest.raises(Unavailable, match="has to be started again"):
        task.add(2, sequence=2)
    assert task.epoch(1) == [1]
    run.service.close()
    service = manager_of(FakeEngine(), threads=1, durable=DurableTasks(folder / "data"))
    again = Client(service, service.get_task(task.id))
    assert (again.epoch(1), again.add(2, sequence=2).sequence) == ([1], 2)
    service.close()


@pytest.mark.parametrize("seed", range(3))
def test_power_is_lost_while_checkpoints_are_written_and_removed(
    folder: Path, recorder: Recorder, vfs: RecordingVfs, seed: int
) -> None:
    """Of each state that is left, the task gives the rows that it had: each says how many came before it."""
    with vfs.below():
        durable = DurableTasks(folder / "data", RecordingDisk(recorder))
    service = manager_of(CountingEngine(), threads=1, durable=durable)
    options = TaskOptions(mode=Mode.CONTINUOUS, checkpoint_epochs=1)
    task = Client(service, service.create_task(PLAN, options, {}))
    answered: list[int] = []
    for epoch in range(1, 7):
        task.add(epoch)
        task.seal(epoch)
        answered.append(len(recorder.operations))
        assert task.epoch(epoch) == [counting(epoch, epoch - 1)]
        service.acknowledge(task.id, Cursor(epoch + 1))
        durable.flush()
    at_points = {at for at in points(recorder) if at > answered[0]}
    recorded = list(recorder.operations)
    service.close()
    lossy, luck = LossyDisk(), random.Random(seed)
    for done in range(len(recorded) + 1):
        if done in at_points:
            left = folder / f"left-{done}"
            put(states(lossy, luck)[seed](), folder / "data", left)  # type: ignore[arg-type]
            sealed = sum(before <= done for before in answered)
            check_counts(left, task.id, sealed)
        if done < len(recorded):
            lossy.apply(recorded[done])


@pytest.mark.parametrize("seed", range(3))
def test_power_is_lost_while_a_task_is_restored_and_its_checkpoint_then_goes(
    folder: Path, recorder: Recorder, vfs: RecordingVfs, seed: int
) -> None:
    """Either there is no task yet, or it goes on from the checkpoint."""
    with vfs.below():
        durable = DurableTasks(folder / "data", RecordingDisk(recorder))
    root = folder / "asked-for"
    service = manager_of(CountingEngine(), threads=1, durable=durable, checkpoint_root=root)
    options = TaskOptions(mode=Mode.CONTINUOUS)
    first = Client(service, service.create_task(PLAN, replace(options, durability=Durability.NONE), {}))
    first.add(1)
    service.request_barrier(first.id, 1, Seal(checkpoint="last"))
    assert first.epoch(1) == [counting(1, 0)]
    began = len(recorder.operations)
    task = service.create_task(PLAN, options, {}, restore=f"{first.id}/last").id
    answered = len(recorder.operations)
    recorded = list(recorder.operations)
    at_points = {at for at in points(recorder) if at >= began}
    service.close()
    shutil.rmtree(root)
    lossy, luck = LossyDisk(), random.Random(seed)
    for done in range(answered + 1):
        if done in at_points:
            left = folder / f"left-{done}"
            put(states(lossy, luck)[seed](), folder / "data", left)  # type: ignore[arg-type]
            check_restored(left, task, there=done == answered)
        if done < answered:
            lossy.apply(recorded[done])


def check_restored(data: Path, identity: str, *, there: bool) -> None:
    service = manager_of(CountingEngine(), threads=1, durable=DurableTasks(data))
    try:
        identities = [info.id for info in service.list_tasks()]
        assert identities in ([[identity]] if there else [[], [identity]])
        if identities:
            task = Client(service, service.get_task(identity))
            task.add(5)
            task.seal()
            assert task.epoch(2) == [counting(5, 1)]
    finally:
        service.close()


def check_counts(data: Path, identity: str, sealed: int) -> None:
    service = manager_of(CountingEngine(), threads=1, durable=DurableTasks(data))
    try:
        task = Client(service, service.get_task(identity))
        info = task.info()
        assert info.sealed_epoch >= sealed
        for epoch in range(info.acknowledged.epoch, info.sealed_epoch + 1):
            assert task.epoch(epoch) == [counting(epoch, epoch - 1)]
    finally:
        service.close()

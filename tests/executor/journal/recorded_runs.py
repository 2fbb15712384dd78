"""Calls on a service over a recording file system, and what their callers know: a service that is started on what is
left of the files has to know it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.executor.journal.durable_tasks import DurableTasks
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.errors import NotFound, Unavailable
from tidegate.proto.values import Cursor, TaskOptions

from ..fakes import PLAN, Client, FakeEngine, manager_of
from .power_loss import Recorder, RecordingDisk, RecordingVfs

LARGE = 20
"""The rows of a split that is kept in a file, where the limit of a blob is so small."""


@dataclass
class Knowledge:
    """The knowledge of callers. `splits` are those that were answered, by task; `tried` one that has no answer yet."""

    splits: dict[str, list[list[int]]] = field(default_factory=dict)
    sealed: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    deleting: set[str] = field(default_factory=set)
    tried: dict[str, list[int]] = field(default_factory=dict)
    sealing: set[str] = field(default_factory=set)

    def copy(self) -> Knowledge:
        return Knowledge(
            {task: list(splits) for task, splits in self.splits.items()},
            dict(self.sealed),
            set(self.deleted),
            set(self.deleting),
            dict(self.tried),
            set(self.sealing),
        )


class Run:
    """Calls on a service over the recording file system. `snapshots` has the knowledge of callers at each operation."""

    def __init__(self, folder: Path, recorder: Recorder, vfs: RecordingVfs) -> None:
        self.recorder, self.now = recorder, Knowledge()
        self.snapshots: list[tuple[int, Knowledge]] = []
        self._folder, self._vfs = folder, vfs
        self.service: Any = self._start()

    def _start(self) -> TaskManager:
        with self._vfs.below():
            self.durable = DurableTasks(self._folder, RecordingDisk(self.recorder))
        return manager_of(FakeEngine(), threads=1, durable=self.durable)

    def settle(self) -> None:
        """Wait until what nobody names is gone, or the disk has refused that."""
        for _ in range(2):  # what follows a commit is done before the next commit
            with suppress(Unavailable):
                self.durable.flush()

    def note(self) -> None:
        self.snapshots.append((len(self.recorder.operations), self.now.copy()))

    def create(self) -> Client:
        request = f"task {len(self.now.splits)}"
        task = Client(self.service, self.service.create_task(PLAN, TaskOptions(), {}, request=request))
        self.now.splits[task.id], self.now.sealed[task.id] = [], 0
        self.note()
        return task

    def add(self, task: Client, values: list[int]) -> None:
        self.now.tried[task.id] = values
        self.note()
        task.add(*values, sequence=len(self.now.splits[task.id]) + 1)
        self.now.splits[task.id].append(values)
        del self.now.tried[task.id]
        self.note()

    def seal(self, task: Client) -> None:
        self.now.sealing.add(task.id)
        self.note()
        self.now.sealed[task.id] = task.seal(self.now.sealed[task.id] + 1)
        self.now.sealing.discard(task.id)
        self.note()

    def delete(self, task: Client) -> None:
        self.now.deleting.add(task.id)
        self.note()
        self.service.delete_task(task.id)
        self.now.deleted.add(task.id)
        self.note()

    def known(self, operations: int) -> tuple[Knowledge, Knowledge]:
        """What callers know once so many operations are done, and what they may have tried by then."""
        before = [knowledge for count, knowledge in self.snapshots if count <= operations]
        return (before or [Knowledge()])[-1], next(
            (knowledge for count, knowledge in self.snapshots if count > operations), self.now
        )


class PatientRun(Run):
    """Calls that are repeated when they are refused, as the refusal says: once the disk works again, and at last on a
    service that is started again. `repeated` names the calls that had to be.
    """

    def __init__(self, folder: Path, recorder: Recorder, vfs: RecordingVfs) -> None:
        super().__init__(folder, recorder, vfs)
        self.repeated: list[str] = []
        self._running, self.service = self.service, Patient(self)

    def close(self) -> None:
        self._running.close()

    def call(self, name: str, *values: object, **more: object) -> Any:
        refusal, answer = self._try(name, *values, **more)
        if refusal is None:
            return answer
        assert refusal.reason == "JOURNAL_FAILED", refusal
        self.repeated.append(name)
        self.recorder.works_again()
        refusal, answer = self._try(name, *values, **more)
        if refusal is None:
            return answer
        assert "has to be started again" in str(refusal), refusal
        self._running.close()
        self._running = self._start()
        with suppress(NotFound) if name == "delete_task" else nullcontext():  # the disk may have it, though it failed
            return getattr(self._running, name)(*values, **more)

    def _try(self, name: str, *values: object, **more: object) -> tuple[Unavailable | None, Any]:
        try:
            return None, getattr(self._running, name)(*values, **more)
        except Unavailable as refusal:
            return refusal, None


class Patient:
    """The service of a `PatientRun`."""

    def __init__(self, run: PatientRun) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._run.call, name)


def history(run: Run) -> None:
    """Splits small and large, some written over the files of others, seals, acknowledgements, a deletion."""
    first, second = run.create(), run.create()
    for epoch in (1, 2, 3):
        run.add(first, [epoch])
        run.add(first, list(range(epoch, epoch + LARGE)))
        run.seal(first)
        first.epoch(epoch)
        run.add(second, [epoch] * LARGE)
        run.service.acknowledge(first.id, Cursor(epoch))
        run.settle()
    run.delete(second)
    run.add(first, [99])


def check(data: Path, least: Knowledge, most: Knowledge) -> None:
    """Start a service on what is left, and compare."""
    service = manager_of(FakeEngine(), threads=1, durable=DurableTasks(data))
    try:
        for identity, splits in least.splits.items():
            try:
                task = Client(service, service.get_task(identity))
            except NotFound:
                assert identity in most.deleting
                continue
            assert identity not in least.deleted
            check_task(task, splits, most.splits.get(identity, splits), least, most)
    finally:
        service.close()


def check_task(
    task: Client, answered: list[list[int]], later: list[list[int]], least: Knowledge, most: Knowledge
) -> None:
    info = task.info()
    added, sealed = info.sources[0].last_added, info.sealed_epoch
    assert len(answered) <= added <= max(len(later), len(answered)) + (task.id in most.tried or task.id in least.tried)
    assert least.sealed[task.id] <= sealed <= max(most.sealed[task.id], least.sealed[task.id] + 1)
    expected = [*later, *([most.tried[task.id]] if task.id in most.tried else [])]
    for number in range(1, added + 1):
        assert task.add(*expected[number - 1], sequence=number).duplicate
    task.seal(sealed + 1)
    first = info.acknowledged.epoch
    values = [value for epoch in range(first, sealed + 2) for value in task.epoch(epoch)]
    assert values == [value for split in expected[2 * (first - 1) * is_first(answered) : added] for value in split]


def is_first(splits: list[list[int]]) -> bool:
    """The first task has two splits in each epoch; of the second nothing is acknowledged."""
    return not splits or len(splits[0]) == 1

"""The tasks of a service by their ids: those being made, those that run, and those of before a restart."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ...proto.errors import NotFound, Refused, TidegateError, Unavailable
from ...proto.values import TaskInfo, TaskOptions, TaskPhase
from ..api.ownership import Ownership
from ..journal.durable_tasks import StoredTask
from ..runtime.ceilings import Ceilings
from ..tasks.task import Task
from .deletion import Deletion
from .recovering import Recovering, being_recovered


@dataclass(frozen=True, slots=True)
class _Repair:
    """A failed task that is to be made again: its description meanwhile, and the call that reads its records."""

    info: TaskInfo
    read: Callable[[], StoredTask]


class TaskTable:
    """Finds tasks for their owners, and counts tasks against the ceilings. Thread-safe."""

    def __init__(self, ownership: Ownership, ceilings: Ceilings, recovering: Recovering) -> None:
        self._ownership = ownership
        self._ceilings = ceilings
        self._recovering = recovering
        self._tasks: dict[str, Task] = {}
        self._beginning: dict[str, TaskOptions] = {}
        """The options of tasks that are being made. They count against the ceilings."""
        self._deleted: weakref.WeakSet[Task] = weakref.WeakSet()
        """Deleted tasks that have not closed yet.

        A task that was deleted in a step closes in its next step, unless the service is closed first. Until then, the
        timer of its interrupts holds the task.
        """
        self._deletions: dict[str, Deletion] = {}
        """Deletions that are not known to be durable yet."""
        self._repairs: dict[str, _Repair] = {}
        """The repairs of failed tasks, by the ids of these tasks, until they are made again."""
        self._repaired: set[str] = set()
        """Failed tasks that are being made again."""
        self._lock = threading.Lock()
        self._closed = self._stopped = False
        self._started = datetime.now(UTC).isoformat(" ", "seconds")

    def __contains__(self, identity: str) -> bool:
        """True if the task runs, whoever owns it."""
        return identity in self._tasks

    # -------------------------------------------------------------------------------------------------- new tasks

    @contextmanager
    def room_for(self, identity: str, options: TaskOptions) -> Iterator[None]:
        """Count a task against the ceilings while it is made. Raises `Exhausted` if there is no room for it."""
        with self._lock:
            lingering = (task for task in self._deleted if task.lingers)
            counted = {
                **self._recovering.options,
                **self._beginning,
                **{task.id: task.options for task in (*lingering, *self._tasks.values())},
            }
            own = [options for known, options in counted.items() if self._ownership.has(known)]
            self._ceilings.check_tasks(len(counted), own, options)
            self._beginning[identity] = options
        try:
            yield
        finally:
            with self._lock:
                del self._beginning[identity]

    def enter(self, task: Task) -> None:
        """Have the task found by its id. If the service takes no more tasks, close this one, and say why."""
        with self._lock:
            refusal = self._refusal()
            if refusal is None:
                self._tasks[task.id] = task
        if refusal is not None:
            task.close()
            raise refusal

    def check_takes_more(self) -> None:
        """Raise the reason why the service makes no more tasks, and why it may not have one any more."""
        refusal = self._refusal()
        if refusal is not None:
            raise refusal

    def check_open(self) -> None:
        if self._closed:
            raise _closed()

    def _refusal(self) -> TidegateError | None:
        return _closed() if self._closed else stopping() if self._stopped else None

    # -------------------------------------------------------------------------------------------------- finding

    def find(self, identity: str) -> Task:
        """The caller's task, which is then not idle. One of before a restart is brought back first."""
        own = self._ownership.has(identity)
        task = self._tasks.get(identity) if own else None
        if task is None and own and identity in self._recovering:
            self._recovering.need(identity)
            task = self._tasks.get(identity)
        if task is None and own and identity in self._repairs:
            task = self._repair_again(identity)
        if task is None and own:
            task = self._tasks.get(identity)  # it may have been made again since
        if task is None:
            self.check_takes_more()
            raise self._unknown(identity)
        task.touch()
        return task

    def present(self, identity: str) -> Task:
        """The task, as `find`, for calls that must not wait: raises `Unavailable` while it is being recovered."""
        if identity not in self._tasks and identity in self._recovering and self._ownership.has(identity):
            self._recovering.ask(identity)
        return self.find(identity)

    def _unknown(self, identity: str) -> NotFound:
        if self._ownership.is_of_another_run(identity):
            return NotFound(
                f"there is no task {identity!r}: the server has started again since the task was made (at "
                f"{self._started}), or is another server, and the task has ended with its server or was deleted; make "
                "the task again, or restore its checkpoint",
                reason="SERVER_RESTARTED",
            )
        return NotFound(f"there is no task {identity!r}; it may have been deleted", reason="UNKNOWN_TASK")

    def infos(self) -> Sequence[TaskInfo]:
        """The descriptions of the caller's tasks."""
        owns = self._ownership.has
        infos = {identity: info for identity, info in self._recovering.infos().items() if owns(identity)}
        with self._lock:
            self.check_open()
            infos.update((identity, repair.info) for identity, repair in self._repairs.items() if owns(identity))
            tasks = {identity: task for identity, task in self._tasks.items() if owns(identity)}
        infos.update({identity: task.info() for identity, task in tasks.items()})
        return [*infos.values()]

    # --------------------------------------------------------------------------------------------------- ending

    def check_own(self, identity: str) -> None:
        """Raise `NotFound` if the id is none of the caller's."""
        if not self._ownership.has(identity):
            raise self._unknown(identity)

    def deletion(self, identity: str) -> Deletion:
        """Take a task out, which is then not found any more. Waits while it is being brought back.

        Every caller who asks for it gets the same deletion, until it is durable.
        """
        stored = self._recovering.take(identity)
        with self._lock:
            self._deletions = {known: one for known, one in self._deletions.items() if not one.is_durable}
            task = self._pop(identity) or stored
            if task is not None:
                self._deletions[identity] = Deletion(task)
            deletion = self._deletions.get(identity)
            is_repaired = identity in self._repairs
        if deletion is not None:
            return deletion
        if is_repaired and self._repair_again(identity) is not None:
            return self.deletion(identity)
        raise self._unknown(identity)

    def is_being_deleted(self, identity: str) -> bool:
        deletion = self._deletions.get(identity)
        return deletion is not None and not deletion.is_durable

    def take_running(self, identity: str) -> Task | None:
        with self._lock:
            return self._pop(identity)

    def _pop(self, identity: str) -> Task | None:
        task = self._tasks.pop(identity, None)
        if task is not None:
            self._deleted.add(task)
        return task

    def repair(self, task: Task, read: Callable[[], StoredTask]) -> None:
        """Make a failed task again, of its records, which `read` gives once the failed one has left. Callers of the
        task are told to try again meanwhile. If the records cannot be read now, the next caller tries it.
        """
        repair = _Repair(replace(task.info(), state=TaskPhase.RECOVERING, error=None), read)
        with self._lock:
            if self._tasks.get(task.id) is not task:
                raise being_recovered(task.id)
            del self._tasks[task.id]
            self._deleted.add(task)
            self._repairs[task.id] = repair
            self._repaired.add(task.id)
        try:
            task.leave(why="recovered")
            self._read_again(task.id)
        finally:
            with self._lock:
                self._repaired.discard(task.id)

    def _read_again(self, identity: str) -> None:
        self._recovering.again(self._repairs[identity].read())
        del self._repairs[identity]

    def _repair_again(self, identity: str) -> Task | None:
        """Try once more to make a failed task again whose records could not be read."""
        with self._lock:
            if identity not in self._repairs or identity in self._repaired:
                raise being_recovered(identity)
            self._repaired.add(identity)
        try:
            self._read_again(identity)
        finally:
            with self._lock:
                self._repaired.discard(identity)
        return self._tasks.get(identity)

    def stop(self) -> tuple[Task, ...]:
        """Take no more tasks; the tasks that there are."""
        with self._lock:
            self._stopped = True
            return tuple(self._tasks.values())

    def close(self) -> tuple[Task, ...]:
        """Have no task found any more; the tasks that there were and have not closed."""
        with self._lock:
            self._closed = True
            tasks = (*self._tasks.values(), *self._deleted)
            self._tasks.clear()
            self._deleted.clear()
            self._deletions.clear()
        self._recovering.close()
        return tasks


def _closed() -> Refused:
    return Refused("the service is closed", reason="SERVICE_CLOSED")


def stopping() -> Unavailable:
    return Unavailable("the server is shutting down")

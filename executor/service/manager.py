"""The service in this process: tasks by their ids, and the threads that run them."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ...proto.errors import NotFound, Problem, Refused, Unavailable
from ...proto.values import (
    NO_WISHES,
    Added,
    AddRequest,
    Capabilities,
    Checkpoint,
    Committed,
    Cursor,
    Explanation,
    FileSplit,
    FoundFile,
    Frame,
    PlanBytes,
    Seal,
    Split,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
)
from ..api.checked_options import check_options, check_rows
from ..api.computation import Computation
from ..api.engine import Engine
from ..api.ownership import Ownership
from ..checkpoints.root import CheckpointRoot, of_graph
from ..graph.graph_service import Graphs
from ..journal.durable_tasks import DurableTasks, StoredTask
from ..ledger.split_digest import creation_digest
from ..runtime.batch_store import SpillSpace
from ..runtime.ceilings import NO_CEILINGS, Ceilings
from ..runtime.scheduler import Scheduler
from ..runtime.timers import Timer, Timers
from ..tasks.task import Task
from ..tasks.task_uploads import Reception
from .call_registry import Requests
from .preparing_tasks import Begun, Preparing, Wanted, lost
from .recovering import Recovering
from .static_uploads import Staging

_NOT_DURABLE: Final = "the task is not durable, because a graph is code of this process: it ends with its service"


class TaskManager:
    """Implements `proto.service.Service`, and `poll` and `subscribe` for servers that must not block.

    The service writes to `folder`, which is its own and removed by `close`, except for checkpoints, which stay in
    `checkpoint_root`, and the journal of `durable` tasks. `close` calls `ended` at last. With `principals`, calls come
    from contexts that `act_for` a principal, and no other principal finds what it made. `ceilings` hold for all tasks.
    `delay` shakes the scheduler in tests.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        folder: Path,
        threads: int,
        checkpoint_root: Path | None = None,
        defaults: TaskOptions | None = None,
        principals: bool = False,
        ceilings: Ceilings = NO_CEILINGS,
        delay: Callable[[], None] | None = None,
        ended: Callable[[], None] | None = None,
        durable: DurableTasks | None = None,
    ) -> None:
        self.defaults = defaults or TaskOptions()
        self._engine = engine
        self._ceilings = ceilings
        self._folder = folder
        self._ownership = Ownership(principals)
        self._checkpoints = CheckpointRoot(checkpoint_root, self._ownership)
        self._scheduler = Scheduler(threads, delay)
        self._timers = Timers()
        self._staging = Staging(self._folder / "staged", self.defaults.spill_quota, self._timers)
        self._tasks: dict[str, Task] = {}
        self._beginning: dict[str, TaskOptions] = {}
        """The options of tasks that are being made. They count against the ceilings."""
        self._idle: dict[str, Timer] = {}
        self._deleted: weakref.WeakSet[Task] = weakref.WeakSet()
        """Deleted tasks that have not closed yet.

        A task that was deleted in a step closes in its next step, unless the service is closed first. Until then, the
        timer of its interrupts holds the task.
        """
        self._requests = Requests(lambda task: task in self._tasks)
        self._lock = threading.Lock()
        self._closed = self._stopped = False
        self._ended = ended
        self._started = datetime.now(UTC).isoformat(" ", "seconds")
        self.graphs = Graphs(self, engine, folder.parent)
        self._durable = durable
        self._preparing = Preparing(engine, self._scheduler, self._checkpoints, self._staging, self._folder, durable)
        stored = () if durable is None else durable.take_stored()
        for task in stored:
            creation = task.creation
            if creation.request:
                self._requests.remember(creation.principal, creation.request, creation.request_digest, task.identity)
        self._recovering = Recovering(stored, self._recover)
        self._recovering.start()

    # ---------------------------------------------------------------------------------------------------- tasks

    @property
    def address(self) -> None:
        """No address: its callers are in its process."""

    @property
    def principal(self) -> str:
        return self._ownership.caller

    def adopt_spark(self, session: object) -> str:
        return self._engine.adopt_spark(session)

    def create_task(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        *,
        restore: str = "",
        request: str = "",
    ) -> TaskInfo:
        """Make a task. A `request`, named by the caller and unguessable, makes one task however often it arrives."""
        self._check_open()
        if self._stopped:
            raise _stopping()
        allowed = check_options(self._ceilings.allowed(options))

        digest = creation_digest(plan, allowed, tables, restore) if request else b""
        caller = self._ownership.caller

        def create() -> str:
            wanted = Wanted(
                plan=plan,
                options=allowed,
                restore=restore,
                principal=caller,
                request=request,
                request_digest=digest,
            )
            return self._create(wanted, tables)

        if not request:
            return self._task(create()).info()
        return self._task(self._requests.once(caller, request, digest, create)).info()

    def _create(self, wanted: Wanted, tables: Mapping[str, Sequence[Split]]) -> str:
        def prepare(identity: str, space: SpillSpace) -> Begun:
            return self._preparing.create(wanted, tables, identity, space)

        return self._begin(wanted.options, prepare)

    def _recover(self, stored: StoredTask) -> None:
        """Bring a task back that was made before the service was started again. If that fails, the task has failed."""
        identity, creation = stored.identity, stored.creation
        space = self._preparing.space(identity, creation.options)
        try:
            begun = self._preparing.again(stored, space)
            task = self._new_task(identity, creation.options, begun, space, creation.principal)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this task's alone
            space.files.remove()
            space = self._preparing.space(identity, creation.options)
            task = self._new_task(identity, creation.options, lost(stored, error), space, creation.principal)
        with self._lock:
            goes_on = not (self._closed or self._stopped)
            if goes_on:
                self._tasks[identity] = task
        if not goes_on:
            task.close()
            return
        task.go_on()
        if creation.options.idle_seconds:
            self._look_if_idle(identity, creation.options.idle_seconds)

    def start(self, options: TaskOptions, prepare: Callable[[SpillSpace, Scheduler], Computation]) -> str:
        """Start a task over a computation that `prepare` makes in the task's space; its id. It has no checkpoints."""

        def begin(_: str, space: SpillSpace) -> Begun:
            warnings = () if self._durable is None else (_NOT_DURABLE,)
            return Begun(prepare(space, self._scheduler), no_checkpoints=of_graph, warnings=warnings)

        return self._begin(options, begin)

    def _begin(self, options: TaskOptions, prepare: Callable[[str, SpillSpace], Begun]) -> str:
        identity = self._ownership.new_identity()
        with self._room_for(identity, options):
            self._start_task(identity, options, prepare)
        if options.idle_seconds:
            self._look_if_idle(identity, options.idle_seconds)
        return identity

    def _start_task(self, identity: str, options: TaskOptions, prepare: Callable[[str, SpillSpace], Begun]) -> None:
        space = self._preparing.space(identity, options)
        try:
            begun = prepare(identity, space)
        except BaseException:
            space.files.remove()
            raise
        task = self._new_task(identity, options, begun, space, self._ownership.caller)
        with self._lock:
            open_ = not (self._closed or self._stopped)
            if open_:
                self._tasks[identity] = task
        if not open_:
            task.close()
            raise _closed() if self._closed else _stopping()

    def _new_task(self, identity: str, options: TaskOptions, begun: Begun, space: SpillSpace, principal: str) -> Task:
        task = Task(
            identity,
            options,
            begun.computation,
            space=space,
            scheduler=self._scheduler,
            timers=self._timers,
            checkpoints=begun.checkpoints,
            no_checkpoints=begun.no_checkpoints,
            start=begun.start,
            warnings=begun.warnings,
            principal=principal,
            journal=begun.journal,
            history=begun.history,
            regular=begun.regular,
        )
        task.hold(begun.held)
        return task

    def _look_if_idle(self, identity: str, seconds: float) -> None:
        timer = self._timers.call_later(seconds, lambda: self._delete_if_idle(identity))
        with self._lock:
            if identity in self._tasks:
                self._idle[identity] = timer
                return
        timer.cancel()

    @contextmanager
    def _room_for(self, identity: str, options: TaskOptions) -> Iterator[None]:
        """Count a task against the ceilings while it is made. Raises `Exhausted` if there is no room for it."""
        with self._lock:
            counted = {
                **self._recovering.options,
                **self._beginning,
                **{known: task.options for known, task in self._tasks.items()},
            }
            own = [options for known, options in counted.items() if self._ownership.has(known)]
            self._ceilings.check_tasks(len(counted), own, options)
            self._beginning[identity] = options
        try:
            yield
        finally:
            with self._lock:
                del self._beginning[identity]

    def _task(self, identity: str) -> Task:
        own = self._ownership.has(identity)
        task = self._tasks.get(identity) if own else None
        if task is None and own and identity in self._recovering:
            self._recovering.need(identity)
            task = self._tasks.get(identity)
        if task is None:
            self._check_open()
            if self._stopped:
                raise _stopping()
            raise self._unknown(identity)
        task.touch()
        return task

    def _present(self, identity: str) -> Task:
        """The task, as `_task`, for calls that must not wait: raises `Unavailable` while it is being recovered."""
        if identity not in self._tasks and identity in self._recovering and self._ownership.has(identity):
            self._recovering.ask(identity)
        return self._task(identity)

    def _unknown(self, task: str) -> NotFound:
        if self._ownership.is_of_another_run(task):
            return NotFound(
                f"there is no task {task!r}: the server has started again since the task was made (at "
                f"{self._started}), or is another server, and the task has ended with its server or was deleted; make "
                "the task again, or restore its checkpoint",
                reason="SERVER_RESTARTED",
            )
        return NotFound(f"there is no task {task!r}; it may have been deleted", reason="UNKNOWN_TASK")

    def get_task(self, task: str) -> TaskInfo:
        return self._task(task).info()

    def list_tasks(self) -> Sequence[TaskInfo]:
        with self._lock:
            self._check_open()
            tasks = dict(self._tasks)
        infos = {**self._recovering.infos(), **{identity: task.info() for identity, task in tasks.items()}}
        return [info for identity, info in infos.items() if self._ownership.has(identity)]

    def cancel_task(self, task: str) -> None:
        self._task(task).cancel()

    def delete_task(self, task: str) -> None:
        if not self._ownership.has(task):
            raise self._unknown(task)
        stored = self._recovering.take(task)
        deleted = self._forget(task)
        if deleted is not None:
            deleted.delete()
            deleted.settle()
        elif stored is not None:
            stored.journal.delete()
            stored.journal.wait()
        else:
            raise self._unknown(task)

    def _forget(self, task: str) -> Task | None:
        self.graphs.forget(task)
        self._requests.forget(task)
        with self._lock:
            forgotten = self._tasks.pop(task, None)
            timer = self._idle.pop(task, None)
            if forgotten is not None:
                self._deleted.add(forgotten)
        if timer is not None:
            timer.cancel()
        return forgotten

    def _delete_if_idle(self, identity: str) -> None:
        task = self._tasks.get(identity)
        if task is None:
            return
        left = task.idle_left()
        if left > 0:
            self._look_if_idle(identity, left)
            return
        self._forget(identity)
        task.delete(why="idle")

    # --------------------------------------------------------------------------------------------------- feeding

    def add_splits(self, task: str, request: AddRequest, *, wake: bool = True) -> tuple[list[Added], int | None]:
        """Add splits to a task.

        Without `wake` the caller calls `work_and_poll` at once, which saves finding a thread.
        """
        return self._task(task).add_splits(request, wake=wake)

    def run_epoch(
        self, task: str, request: AddRequest, cursor: Cursor, *, acknowledge: Cursor | None = None
    ) -> Sequence[Frame]:
        running = self._task(task)
        running.add_splits(request, wake=False)
        return running.work_and_poll(cursor, acknowledge, None)

    def work_and_poll(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None, max_bytes: int | None = None
    ) -> Sequence[Frame]:
        """Run the task's work on the calling thread, if it is short and no other thread has it; then `poll`."""
        return self._task(task).work_and_poll(cursor, acknowledge, max_bytes)

    def transact(self, task: str, transaction: Transaction, request: AddRequest, *, wake: bool = True) -> Transacted:
        """Add splits and a seal as one transaction. `wake` as in `add_splits`."""
        return self._task(task).transact(transaction, request, wake=wake)

    def find_files(self, task: str, source: str, split: FileSplit, *, pieces: bool = False) -> Sequence[FoundFile]:
        return self._task(task).find_files(source, split, pieces=pieces)

    def last_transaction(self, task: str, application: str) -> Committed | None:
        return self._task(task).last_transaction(application)

    def upload(self, task: str, name: str, chunks: Iterable[bytes], *, group: str = "") -> str:
        return self.begin_upload(task, name, group=group).receive(chunks)

    def begin_upload(self, task: str, name: str, *, group: str = "") -> Reception:
        """Begin an upload whose chunks come one by one. It holds only the bytes that have come."""
        if not task:
            return self._staging.begin_upload(self._ownership.caller, name)
        return self._task(task).begin_upload(name, group)

    def drop_uploads(self, task: str, group: str) -> None:
        self._task(task).drop_uploads(group)

    def no_more_splits(self, task: str, source: str | None = None, through: Mapping[str, int] | None = None) -> None:
        self._task(task).no_more_splits(source, through)

    def request_barrier(self, task: str, epoch: int | None = None, seal: Seal = NO_WISHES) -> int:
        return self._task(task).request_barrier(epoch, seal)

    def list_checkpoints(self, task: str) -> Sequence[Checkpoint]:
        self._check_open()
        return self._checkpoints.list(task)

    # --------------------------------------------------------------------------------------------------- reading

    def next(
        self,
        task: str,
        cursor: Cursor,
        *,
        acknowledge: Cursor | None = None,
        max_bytes: int | None = None,
        wait: float = 0.0,
    ) -> Sequence[Frame]:
        return self._task(task).next(cursor, acknowledge, max_bytes, wait)

    def poll(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None, max_bytes: int | None = None
    ) -> Sequence[Frame]:
        """The frames that there are now, as `next` without a wait. Never blocks, never works."""
        return self._present(task).poll(cursor, acknowledge, max_bytes)

    def subscribe(self, task: str, cursor: Cursor, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for whenever a `poll` at the cursor may have a new answer; returns a function that ends
        that.

        The callback runs on any thread. It must not block and must not call the service; it hands the event on
        (`loop.call_soon_threadsafe`). A task with a subscriber is not idle.
        """
        return self._present(task).subscribe(cursor, callback)

    def acknowledge(self, task: str, cursor: Cursor) -> None:
        self._task(task).acknowledge(cursor)

    # ----------------------------------------------------------------------------------------------------- plans

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]:
        self._check_open()
        return self._engine.validate(plan, check_options(options))

    def explain(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        static_sources: Sequence[str] = (),
        rows: Mapping[str, int] | None = None,
    ) -> Explanation:
        self._check_open()
        return self._engine.explain(plan, check_options(options), static_sources, check_rows(rows or {}))

    def capabilities(self) -> Capabilities:
        self._check_open()
        return replace(self._engine.capabilities(), principal=self._ownership.caller)

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()

    def stop(self) -> None:
        """Cancel every task and take no more. Waiting callers learn that the service ends. Does not wait."""
        with self._lock:
            self._stopped = True
            tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel(_stopping())

    def close(self) -> None:
        """Cancel every task and wait; no thread and no file is left. May be called more than once."""
        with self._lock:
            self._closed = True
            tasks = (*self._tasks.values(), *self._deleted)
            self._tasks.clear()
            self._deleted.clear()
        self._recovering.close()
        for task in tasks:
            task.leave(why="closed")
        self._scheduler.close()
        self._timers.close()
        for task in tasks:
            task.close()
        self._engine.close()
        if self._durable is not None:
            self._durable.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._ended is not None:
            self._ended()


def _closed() -> Refused:
    return Refused("the service is closed", reason="SERVICE_CLOSED")


def _stopping() -> Unavailable:
    return Unavailable("the server is shutting down")

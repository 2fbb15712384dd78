"""The service in this process: tasks by their ids, and the threads that run them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...proto.current_call import caller_has_left
from ...proto.errors import InternalError, Problem, TidegateError
from ...proto.spark_frames import FrameFeeds
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
    Reader,
    Seal,
    Split,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
)
from ..api.checked_options import check_options, check_rows, with_channels
from ..api.computation import Computation
from ..api.engine import Engine
from ..api.ownership import Ownership
from ..checkpoints.root import CheckpointRoot, of_graph
from ..graph.graph_service import Graphs
from ..journal.durable_tasks import DurableTasks, StoredTask
from ..journal.task_journal import DurableTask
from ..ledger.epoch import Start
from ..ledger.split_digest import creation_digest
from ..runtime.batch_store import SpillSpace
from ..runtime.ceilings import NO_CEILINGS, Ceilings
from ..runtime.scheduler import Scheduler
from ..runtime.timers import Timers
from ..tasks.task import Task
from ..tasks.task_uploads import Reception
from .call_registry import Requests
from .preparing_tasks import Begun, Preparing, Wanted, lost
from .recovering import Recovering
from .static_uploads import Staging
from .task_table import TaskTable, stopping

_NOT_DURABLE: Final = "the task is not durable, because a graph is code of this process: it ends with its service"


class TaskManager:
    """Implements `proto.service.Service`, and `poll` and `subscribe` for servers that must not block.

    The service writes to `folder`, which is its own and removed by `close`, except for checkpoints, which stay in
    `checkpoint_root`, and the journal of `durable` tasks. `close` calls `ended` at last. With `principals`, calls come
    from contexts that `act_for` a principal, and no other principal finds what it made. `ceilings` hold for all tasks.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        folder: Path,
        threads: int,
        task_threads: int | None = None,
        checkpoint_root: Path | None = None,
        defaults: TaskOptions | None = None,
        principals: bool = False,
        ceilings: Ceilings = NO_CEILINGS,
        ended: Callable[[], None] | None = None,
        durable: DurableTasks | None = None,
    ) -> None:
        self.defaults = defaults or TaskOptions()
        self._engine = engine
        self._ceilings = ceilings
        self.folder = folder
        self._ownership = Ownership(principals)
        self._checkpoints = CheckpointRoot(checkpoint_root, self._ownership)
        self._scheduler = Scheduler(threads, task_threads)
        self._timers = Timers()
        self._staging = Staging(self.folder / "staged", self.defaults.spill_quota, self._timers)
        self._ended = ended
        self.graphs = Graphs(self, engine, folder.parent)
        self._durable = durable
        self._preparing = Preparing(engine, self._scheduler, self._checkpoints, self._staging, self.folder, durable)
        stored = () if durable is None else durable.take_stored()
        recovering = Recovering(stored, self._recover)
        self._tasks = TaskTable(self._ownership, ceilings, recovering)
        self._requests = Requests(self._tasks.__contains__)
        for task in stored:
            creation = task.creation
            if creation.request:
                self._requests.remember(creation.principal, creation.request, creation.request_digest, task.identity)
        recovering.start()

    # ---------------------------------------------------------------------------------------------------- tasks

    @property
    def address(self) -> None:
        """No address: its callers are in its process."""

    @property
    def principal(self) -> str:
        return self._ownership.caller

    def adopt_spark(self, session: object) -> str:
        return self._engine.adopt_spark(session)

    def over_frames(self, plan: PlanBytes, options: TaskOptions, feeds: FrameFeeds) -> object:
        return self._engine.over_frames(plan, self._checked(self._ceilings.allowed(options)), feeds)

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
        self._tasks.check_takes_more()
        asked = self._ceilings.allowed(options)
        allowed = self._checked(asked, start=True)
        digest = creation_digest(plan, asked, tables, restore) if request else b""
        caller = self._ownership.caller

        def create() -> str:
            wanted = Wanted(
                plan=plan,
                options=allowed,
                restore=restore,
                principal=caller,
                request=request,
                request_digest=digest,
                warnings=self._ceilings.warnings(options),
            )
            return self._create(wanted, tables)

        if not request:
            info = self._tasks.find(create()).info()
            if caller_has_left():  # no one else was told the task's id
                self.delete_task(info.id)
            return info
        return self._tasks.find(self._requests.once(caller, request, digest, create)).info()

    def _checked(self, options: TaskOptions, *, start: bool = False) -> TaskOptions:
        most = self._ceilings.options.get("channels")
        return check_options(with_channels(options, lambda: self._engine.cores(options, start=start), most))

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
            task = self._lost_task(stored, error, space)
        try:
            self._tasks.enter(task)
        except TidegateError:  # the service ends, and the next one brings the task back
            return
        task.go_on()
        task.touch()

    def _lost_task(self, stored: StoredTask, error: Exception, space: SpillSpace) -> Task:
        """The task of before, which has failed. If its changes do not fit to one another, it is as if it had none."""
        identity, options, principal = stored.identity, stored.creation.options, stored.creation.principal
        try:
            return self._new_task(identity, options, lost(stored, error), space, principal)
        except Exception:  # noqa: BLE001  # the first error says why
            unchanged = replace(stored, records=(), start=Start(epoch=stored.start.epoch))
            return self._new_task(identity, options, lost(unchanged, error), space, principal)

    def start(self, options: TaskOptions, prepare: Callable[[SpillSpace, Scheduler], Computation]) -> str:
        """Start a task over a computation that `prepare` makes in the task's space; its id. It has no checkpoints."""

        def begin(_: str, space: SpillSpace) -> Begun:
            warnings = () if self._durable is None else (_NOT_DURABLE,)
            return Begun(prepare(space, self._scheduler), no_checkpoints=of_graph, warnings=warnings)

        return self._begin(options, begin)

    def _begin(self, options: TaskOptions, prepare: Callable[[str, SpillSpace], Begun]) -> str:
        identity = self._ownership.new_identity()
        with self._tasks.room_for(identity, options):
            self._start_task(identity, options, prepare)
        return identity

    def _start_task(self, identity: str, options: TaskOptions, prepare: Callable[[str, SpillSpace], Begun]) -> None:
        space = self._preparing.space(identity, options)
        try:
            begun = prepare(identity, space)
        except BaseException:
            space.files.remove()
            raise
        task = self._new_task(identity, options, begun, space, self._ownership.caller)
        self._tasks.enter(task)
        task.touch()

    def _new_task(self, identity: str, options: TaskOptions, begun: Begun, space: SpillSpace, principal: str) -> Task:
        task = Task(
            identity,
            options,
            begun.computation,
            space=space,
            scheduler=self._scheduler,
            timers=self._timers,
            idle=lambda: self._delete_idle(identity),
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

    def get_task(self, task: str) -> TaskInfo:
        return self._tasks.find(task).info()

    def list_tasks(self) -> Sequence[TaskInfo]:
        return self._tasks.infos()

    def cancel_task(self, task: str) -> None:
        self._tasks.find(task).cancel()

    def recover_task(self, task: str, skip: Sequence[tuple[str, int]] = (), request: str = "") -> TaskInfo:
        """Have a durable task that has failed go on, without the splits in `skip`: (source, number). Another call with
        the same `request` changes nothing.
        """
        failed = self._tasks.find(task)
        journal, durable = failed.recover(skip, request), self._durable
        if journal is None:
            return self._tasks.find(task).info()
        if durable is None or not isinstance(journal, DurableTask):
            raise InternalError("a task that is durable has no journal")
        self._tasks.repair(failed, lambda: durable.read_again(journal))
        return self._tasks.find(task).info()

    def delete_task(self, task: str, reader: Reader | None = None) -> None:
        """Delete a task. For one of several readers: once all of them have asked.

        A call that was refused because it could not be made durable may be repeated.
        """
        self._tasks.check_own(task)
        if not (reader is None or self._tasks.is_being_deleted(task) or self._tasks.find(task).is_read_by_all(reader)):
            return
        deletion = self._tasks.deletion(task)
        self._forget(task)
        deletion.settle()

    def _delete_idle(self, identity: str) -> None:
        self._forget(identity)
        task = self._tasks.take_running(identity)
        if task is not None:
            task.delete(why="idle")

    def _forget(self, task: str) -> None:
        self.graphs.forget(task)
        self._requests.forget(task)

    # --------------------------------------------------------------------------------------------------- feeding

    def add_splits(self, task: str, request: AddRequest, *, wake: bool = True) -> tuple[list[Added], int | None]:
        """Add splits to a task.

        Without `wake` the caller calls `work_and_poll` at once, which saves finding a thread.
        """
        return self._tasks.find(task).add_splits(request, wake=wake)

    def run_epoch(
        self, task: str, request: AddRequest, cursor: Cursor, *, acknowledge: Cursor | None = None
    ) -> Sequence[Frame]:
        running = self._tasks.find(task)
        running.readers.check(cursor, acknowledge)
        if acknowledge is not None:
            running.readers.acknowledge(acknowledge)  # first, so that rows before need no digest, and leave their room
        running.add_splits(request, wake=False, lends=True)
        return running.readers.work_and_poll(cursor, None, None)

    def check_read(self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None) -> None:
        """Raise what `poll` would raise of the cursors, before something is added by the same call."""
        self._tasks.find(task).readers.check(cursor, acknowledge)

    def work_and_poll(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None, max_bytes: int | None = None
    ) -> Sequence[Frame]:
        """Run the task's work on the calling thread, if it is short and no other thread has it; then `poll`."""
        return self._tasks.find(task).readers.work_and_poll(cursor, acknowledge, max_bytes)

    def transact(self, task: str, transaction: Transaction, request: AddRequest, *, wake: bool = True) -> Transacted:
        """Add splits and a seal as one transaction. `wake` as in `add_splits`."""
        return self._tasks.find(task).transact(transaction, request, wake=wake)

    def find_files(self, task: str, source: str, split: FileSplit, *, pieces: bool = False) -> Sequence[FoundFile]:
        return self._tasks.find(task).find_files(source, split, pieces=pieces)

    def last_transaction(self, task: str, application: str) -> Committed | None:
        return self._tasks.find(task).last_transaction(application)

    def upload(self, task: str, name: str, chunks: Iterable[bytes], *, group: str = "") -> str:
        return self.begin_upload(task, name, group=group).receive(chunks)

    def begin_upload(self, task: str, name: str, *, group: str = "") -> Reception:
        """Begin an upload whose chunks come one by one. It holds only the bytes that have come."""
        if not task:
            return self._staging.begin_upload(self._ownership.caller, name)
        return self._tasks.find(task).begin_upload(name, group)

    def drop_uploads(self, task: str, group: str) -> None:
        self._tasks.find(task).drop_uploads(group)

    def no_more_splits(self, task: str, source: str | None = None, through: Mapping[str, int] | None = None) -> None:
        self._tasks.find(task).no_more_splits(source, through)

    def request_barrier(self, task: str, epoch: int | None = None, seal: Seal = NO_WISHES) -> int:
        return self._tasks.find(task).request_barrier(epoch, seal)

    def list_checkpoints(self, task: str) -> Sequence[Checkpoint]:
        self._tasks.check_open()
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
        return self._tasks.find(task).readers.next(cursor, acknowledge, max_bytes, wait)

    def poll(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None, max_bytes: int | None = None
    ) -> Sequence[Frame]:
        """The frames that there are now, as `next` without a wait. Never blocks, never works."""
        return self._tasks.present(task).readers.poll(cursor, acknowledge, max_bytes)

    def subscribe(self, task: str, cursor: Cursor, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for whenever a `poll` at the cursor may have a new answer; returns a function that ends
        that.

        The callback runs on any thread. It must not block and must not call the service; it hands the event on
        (`loop.call_soon_threadsafe`). A task with a subscriber is not idle.
        """
        return self._tasks.present(task).readers.subscribe(cursor, callback)

    def acknowledge(self, task: str, cursor: Cursor) -> None:
        self._tasks.find(task).readers.acknowledge(cursor)

    # ----------------------------------------------------------------------------------------------------- plans

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]:
        self._tasks.check_open()
        return self._engine.validate(plan, self._checked(options))

    def explain(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        static_sources: Sequence[str] = (),
        rows: Mapping[str, int] | None = None,
    ) -> Explanation:
        self._tasks.check_open()
        return self._engine.explain(plan, self._checked(options), static_sources, check_rows(rows or {}))

    def capabilities(self) -> Capabilities:
        self._tasks.check_open()
        return replace(self._engine.capabilities(), principal=self._ownership.caller)

    def stop(self) -> None:
        """Cancel every task and take no more. Waiting callers learn that the service ends. Does not wait."""
        for task in self._tasks.stop():
            task.cancel(stopping())

    def close(self) -> None:
        """Cancel every task and wait; no thread and no file is left. May be called more than once."""
        tasks = self._tasks.close()
        for task in tasks:
            task.leave(why="closed")
        self._scheduler.close()
        self._timers.close()
        for task in tasks:
            task.close()
        self._engine.close()
        if self._durable is not None:
            self._durable.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._ended is not None:
            self._ended()

"""One task as its callers see it: splits in, barriers, frames out. Thread-safe; a refused call changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ...proto.errors import OutOfRange, Refused, TidegateError
from ...proto.values import (
    NO_WISHES,
    Added,
    AddRequest,
    Blocked,
    BlockedState,
    Committed,
    Cursor,
    FileSplit,
    Finished,
    FoundFile,
    Frame,
    Seal,
    Split,
    TaskInfo,
    TaskOptions,
    TaskPhase,
    Transacted,
    Transaction,
    with_missing,
)
from ..api.computation import Computation
from ..checkpoints.checkpoint_folder import check_name
from ..checkpoints.regular_checkpoints import RegularCheckpoints
from ..checkpoints.root import no_root
from ..checkpoints.taking import Checkpoints
from ..journal.task_journal import NO_JOURNAL, TaskJournal
from ..ledger.epoch import FIRST, Start
from ..runtime.batch_store import SpillSpace
from ..runtime.events import TaskEvents
from ..runtime.scheduler import Scheduler, Slot
from ..runtime.timers import Timers
from .add_splits import Adding, now
from .describe import describe
from .epoch_loop import EpochLoop
from .output_log import Full
from .task_state import History, TaskState
from .task_uploads import Reception

DEFAULT_READ_BYTES = 32 << 20
_LEND_BELOW_US = 50_000
_LONGEST_WAIT_SECONDS = 3600.0
_INTERRUPT_AGAIN_SECONDS = 0.05


class Task:
    """A task. `id` is unguessable.

    The task owns its computation from here on, and closes it. The computation already stands behind the barrier that
    the task is to `start` from.
    """

    def __init__(
        self,
        identity: str,
        options: TaskOptions,
        computation: Computation,
        *,
        space: SpillSpace,
        scheduler: Scheduler,
        timers: Timers,
        checkpoints: Checkpoints | None = None,
        no_checkpoints: Callable[[], TidegateError] = no_root,
        start: Start = FIRST,
        warnings: Sequence[str] = (),
        principal: str = "",
        journal: TaskJournal = NO_JOURNAL,
        history: History | None = None,
        regular: RegularCheckpoints | None = None,
    ) -> None:
        self.id = identity
        self._events = TaskEvents(task=identity, principal=principal)
        self.options = options
        self._computation = computation
        self._checkpoints = checkpoints
        self._no_checkpoints = no_checkpoints
        self._warnings = (*computation.warnings, *warnings)
        self._task_state = TaskState(
            options,
            computation.sources,
            space,
            start,
            timers,
            self._events,
            journal=journal,
            history=history,
            regular=regular,
        )
        self._epoch_loop = EpochLoop(self._task_state, computation, checkpoints, self._wake)
        self._slot = Slot(self._epoch_loop, principal, identity)
        self._has_left = False
        self._scheduler = scheduler
        self._timers = timers
        self._adding = Adding(self._task_state, computation, self._task_state.uploads)
        self._events.tell(
            "task_created" if history is None else "task_recovered",
            mode=options.mode.value,
            determinism=options.determinism.value,
            channels=options.channels,
            executor=options.executor.value,
            after_epoch=start.epoch or None,
        )

    # --------------------------------------------------------------------------------------------------- splits

    def add_splits(self, request: AddRequest, *, wake: bool = True) -> tuple[list[Added], int | None]:
        """Add splits, and request a barrier if asked to.

        Without `wake` the caller calls `work` at once, so that no other thread needs to be found.
        """
        self._task_state.journal.check()
        try:
            added = []
            for source, split, number in request.splits:
                added.append(self._adding.add(source, self._own(split), number, request.epoch))
                with self._task_state.lock:
                    self._may_run(wake=wake)
            sealed = None if request.seal is None else self._request_barrier(request.epoch, request.seal, wake=wake)
        except BaseException:
            self._scheduler.wake()
            raise
        finally:
            self._settle(wake=wake)
        return added, sealed

    def _settle(self, *, wake: bool = True) -> None:
        """Wait until all changes are durable, and let the epoch loop have them. Without a journal this is done."""
        if self._task_state.journal.keeps:
            self._task_state.journal.wait()
            with self._task_state.lock:
                self._may_run(wake=wake)
                self._task_state.changed()

    def transact(self, transaction: Transaction, request: AddRequest, *, wake: bool = True) -> Transacted:
        """Add splits and a seal as one transaction. `wake` as in `add_splits`."""
        self._task_state.journal.check()
        self._check_checkpoint(request.seal)
        splits = [(source, self._own(split)) for source, split, _ in request.splits]
        transacted = self._adding.transact(transaction, splits, request.epoch, request.seal)
        if not transacted.replayed:
            with self._task_state.lock:
                if request.seal is None:
                    self._may_run(wake=wake)
                else:
                    self._sealed(wake=wake)
        self._settle(wake=wake)
        return transacted

    def _own(self, split: Split) -> Split:
        """The split, with the task's `missing_columns` option if the split does not say its own."""
        return with_missing(split, self.options.missing_columns)

    def find_files(self, source: str, split: FileSplit, *, pieces: bool = False) -> tuple[FoundFile, ...]:
        return self._adding.find(source, split, pieces=pieces)

    def last_transaction(self, application: str) -> Committed | None:
        with self._task_state.lock:
            last = self._task_state.ledger.transactions.last(application)
        return None if last is None else Committed(version=last.version, epoch=last.epoch)

    def _sealed(self, *, wake: bool) -> None:
        self._task_state.counters.barriers_requested += 1
        self._may_run(wake=wake)
        self._task_state.changed()

    def begin_upload(self, name: str, group: str) -> Reception:
        """Begin an upload. The task is in use until the upload has ended or was dropped."""
        with self._task_state.lock:
            self._task_state.check_running()
            self._task_state.in_use += 1
        try:
            return self._task_state.uploads.begin(name, group, self._out_of_use)
        except BaseException:
            self._out_of_use()
            raise

    def drop_uploads(self, group: str) -> None:
        self._task_state.uploads.drop(group)

    def hold(self, size: int) -> None:
        """Count rows that stay in memory for the task's life against the memory of splits."""
        with self._task_state.lock:
            self._task_state.queue.hold(size)

    # ------------------------------------------------------------------------------------------------- barriers

    def request_barrier(self, epoch: int | None, seal: Seal = NO_WISHES) -> int:
        self._task_state.journal.check()
        number = self._request_barrier(epoch, seal)
        self._settle()
        return number

    def _request_barrier(self, epoch: int | None, seal: Seal, *, wake: bool = True) -> int:
        self._check_checkpoint(seal)
        ledger = self._task_state.ledger
        with self._task_state.lock:
            self._task_state.check_running()
            before, checkpoints, now_us = ledger.sealed, ledger.checkpoints, now()
            number, sealed = ledger.request_barrier(epoch, seal, now_us)
            if sealed or ledger.checkpoints > checkpoints:
                self._task_state.journal.record(ledger, now_us, before, checkpoint=number)
            if seal.checkpoint is not None and self._task_state.full is Full.UNREAD:
                self._go_on()  # run to the checkpoint, whether or not anybody reads
            if sealed:
                self._sealed(wake=wake)
            return number

    def _check_checkpoint(self, seal: Seal | None) -> None:
        if seal is None or seal.checkpoint is None:
            return
        if seal.checkpoint:
            check_name(seal.checkpoint)
        if self._checkpoints is None:
            raise self._no_checkpoints()

    def no_more_splits(self, source: str | None, through: Mapping[str, int] | None) -> None:
        self._task_state.journal.check()
        self._end(source, through)
        self._settle()

    def _end(self, source: str | None, through: Mapping[str, int] | None) -> None:
        ledger = self._task_state.ledger
        with self._task_state.lock:
            self._task_state.check_running()
            before, now_us = ledger.sealed, now()
            ended = ledger.no_more_splits(source, through, now_us)
            if ended is not None:
                self._task_state.journal.record(ledger, now_us, before, ended=ended)
            if self._task_state.ledger.done:
                self._task_state.finish()
                self._scheduler.submit(self._slot)
            self._may_run()
            self._task_state.changed()

    def _wake(self) -> None:
        self._scheduler.submit(self._slot)

    def _may_run(self, *, wake: bool = True) -> None:
        """Give the epoch loop to the scheduler if it has work. Called under the lock."""
        if self._task_state.full is None and self._epoch_loop.has_work():
            self._scheduler.submit(self._slot, wake=wake)

    # -------------------------------------------------------------------------------------------------- reading

    def poll(self, cursor: Cursor, acknowledge: Cursor | None, max_bytes: int | None) -> list[Frame]:
        """The frames from a cursor on that there are now. Never waits."""
        with self._task_state.lock:
            if acknowledge is not None:
                self._acknowledge(acknowledge)
            return self._frames(cursor, max_bytes or DEFAULT_READ_BYTES)

    def next(self, cursor: Cursor, acknowledge: Cursor | None, max_bytes: int | None, wait: float) -> list[Frame]:
        """The frames from a cursor on. Waits for a frame other than BLOCKED."""
        frames = self.poll(cursor, acknowledge, max_bytes)
        if wait <= 0 or not isinstance(frames[0], Blocked):
            return frames
        if self._scheduler.stepping:
            raise Refused(
                "the code of a node waits for a task of the same service, which could block all threads of the "
                "service: give the node its input as a stream, or run that task in another service "
                "(tidegate.local())",
                reason="WAIT_INSIDE",
            )
        with self._in_use():
            return self._wait(cursor, max_bytes or DEFAULT_READ_BYTES, wait)

    def _wait(self, cursor: Cursor, room: int, wait: float) -> list[Frame]:
        deadline = time.monotonic() + wait
        task_state = self._task_state
        while True:
            with task_state.lock:
                while isinstance((frames := self._frames(cursor, room))[0], Blocked):
                    remaining = deadline - time.monotonic()
                    if remaining <= 0 or self._may_lend(remaining):
                        break
                    task_state.wait(min(remaining, _LONGEST_WAIT_SECONDS))
                if not isinstance(frames[0], Blocked) or remaining <= 0:
                    return frames
            self._scheduler.lend(self._slot)

    def work_and_poll(self, cursor: Cursor, acknowledge: Cursor | None, max_bytes: int | None) -> list[Frame]:
        """Run a slice of the task on the calling thread, if it waits for a thread and its epochs are short.

        Then `poll`.
        """
        if self._may_lend(_LONGEST_WAIT_SECONDS):
            self._scheduler.lend(self._slot)
        if self._slot.waiting:
            self._scheduler.wake()
        return self.poll(cursor, acknowledge, max_bytes)

    def _may_lend(self, remaining: float) -> bool:
        """True if the caller should run the task itself.

        For short epochs, handing them to another thread costs more.
        """
        last_us = self._task_state.last_epoch_us
        return self._slot.waiting and last_us is not None and last_us < min(_LEND_BELOW_US, remaining * 1e6)

    def _frames(self, cursor: Cursor, max_bytes: int) -> list[Frame]:
        task_state = self._task_state
        if task_state.phase is TaskPhase.CANCELLED:
            task_state.check_running()
        task_state.output.check(cursor)
        frames: list[Frame] = []
        task_state.output.read_to(cursor)
        data = task_state.output.read(cursor, max_bytes)
        if data is not None:
            frames.append(data)
            cursor = Cursor(cursor.epoch, cursor.row + data.rows)
        if task_state.full is Full.UNREAD and task_state.output.is_read:
            self._go_on()
        barrier = task_state.output.barrier(cursor.epoch)
        if barrier is not None and (barrier.error is not None or cursor.row == barrier.rows):
            task_state.ledger.read(cursor.epoch)
            frames.append(barrier)
            if self._has_ended and cursor.epoch == task_state.ledger.sealed:
                frames.append(Finished())
        return frames or [self._nothing_at(cursor)]

    @property
    def _has_ended(self) -> bool:
        return self._task_state.phase is TaskPhase.FINISHED and self._task_state.journal.settled

    def _nothing_at(self, cursor: Cursor) -> Frame:
        """The frame that says why there are no rows at a cursor."""
        task_state = self._task_state
        task_state.check_running()
        if not task_state.journal.settled:
            return Blocked(state=BlockedState.WORKING)
        if task_state.phase is TaskPhase.FINISHED:
            if cursor == Cursor(task_state.ledger.sealed + 1):
                return Finished()
            raise OutOfRange(
                f"the task has finished with epoch {task_state.ledger.sealed}: there is no epoch {cursor.epoch}"
            )
        if task_state.full is Full.FULL:
            start = task_state.output.acknowledged
            raise Refused(
                f"there are no rows yet at row {cursor.row} of epoch {cursor.epoch}, and the task waits until older "
                f"output is acknowledged: read from row {start.row} of epoch {start.epoch}",
                reason="OUTPUT_FULL",
            )
        if self._epoch_loop.has_work():
            return Blocked(state=BlockedState.WORKING)
        return Blocked(state=BlockedState.UNSEALED, missing=task_state.ledger.waits_for())

    def acknowledge(self, cursor: Cursor) -> None:
        with self._task_state.lock:
            self._acknowledge(cursor)

    def _acknowledge(self, cursor: Cursor) -> None:
        task_state = self._task_state
        if task_state.phase is TaskPhase.CANCELLED:
            task_state.check_running()
        if not task_state.output.acknowledge(cursor):
            return
        task_state.forget_acknowledged()
        if task_state.full is not None:
            self._go_on()
        task_state.changed()

    def _go_on(self) -> None:
        """Let the producer go on: there is room again, or it need not wait any more. Called under the lock."""
        self._task_state.full = None
        self._scheduler.submit(self._slot)

    def subscribe(self, cursor: Cursor, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for whenever a `poll` at the cursor may have a new answer.

        It is called on any thread, under the task's lock.
        """
        with self._task_state.lock:
            listener = self._task_state.listeners.add(cursor, callback)

        def unsubscribe() -> None:
            with self._task_state.lock:
                self._task_state.listeners.remove(listener)

        return unsubscribe

    # ---------------------------------------------------------------------------------------------------- ending

    def cancel(self, why: TidegateError | None = None) -> None:
        """End the task: tell every waiter, interrupt work in progress, and free what the task held.

        `why` is the error for waiters, if the caller did not ask for the end. A durable task is then not cancelled for
        good: it goes on when its service is started again.
        """
        task_state = self._task_state
        with task_state.lock:
            runs = task_state.phase is TaskPhase.RUNNING
            if runs:
                task_state.error = why
                if why is None:
                    task_state.journal.record(task_state.ledger, now(), task_state.ledger.sealed, cancelled=True)
                self._release()
                end = "asked" if why is None else "closed"
                self._events.tell("task_cancelled", why=end, state=TaskPhase.RUNNING.value)
        if runs:
            self._stop()
        if why is None:
            task_state.journal.wait()

    def delete(self, why: str = "asked") -> None:
        """Cancel the task in whatever state, and delete its files and its records. `why` is a word for the log.

        `settle` waits until the records are gone for good.
        """
        with self._task_state.lock:
            self._task_state.journal.delete()
        self.leave(why)

    def settle(self) -> None:
        """Wait until all changes are durable."""
        self._task_state.journal.wait()

    def leave(self, why: str) -> None:
        """End the task in this process, and delete its files here. The records of a durable task stay.

        May be called more than once; the log has the first call.
        """
        with self._task_state.lock:
            state, has_left = self._task_state.phase, self._has_left
            self._has_left = True
            self._release()
        self._stop()
        if not has_left:
            self._events.tell("task_deleted", why=why, state=state.value)
        self._task_state.files.remove()

    def go_on(self) -> None:
        """Begin the work that was left before the service was started again."""
        with self._task_state.lock:
            over = self._task_state.phase is not TaskPhase.RUNNING
            self._may_run()
        if over:
            self._stop()

    def _release(self) -> None:
        self._task_state.phase = TaskPhase.CANCELLED
        if self._task_state.regular is not None:
            self._task_state.regular.end()
        self._task_state.queue.clear()
        self._task_state.output.clear()
        self._task_state.changed()

    def _stop(self) -> None:
        """Make the epoch loop close: on this thread if no other thread is running it."""
        if self._epoch_loop.closed:
            return
        self._scheduler.submit(self._slot)
        if not self._scheduler.lend(self._slot):
            self._interrupt()

    def _interrupt(self) -> None:
        """Interrupt the computation until the epoch loop has closed.

        An interrupt just before a statement starts is lost, so one is not enough.
        """
        if not self._epoch_loop.closed:
            self._computation.interrupt()
            self._timers.call_later(_INTERRUPT_AGAIN_SECONDS, self._interrupt)

    def close(self) -> None:
        """End what is left, after the scheduler was closed."""
        self._epoch_loop.close()
        self._task_state.files.remove()

    # -------------------------------------------------------------------------------------------------- looking

    def touch(self) -> None:
        """Record that a call named the task, so that it is not idle."""
        self._task_state.used_at = time.monotonic()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """A context of a long call that names the task, which is not idle meanwhile."""
        with self._task_state.lock:
            self._task_state.in_use += 1
        try:
            yield
        finally:
            self._out_of_use()

    def _out_of_use(self) -> None:
        with self._task_state.lock:
            self._task_state.in_use -= 1
            self._task_state.used_at = time.monotonic()

    def idle_left(self) -> float:
        """Seconds until the task has been idle for as long as it may."""
        with self._task_state.lock:
            if self._task_state.in_use or self._task_state.listeners:
                return self.options.idle_seconds
            return self._task_state.used_at + self.options.idle_seconds - time.monotonic()

    def info(self) -> TaskInfo:
        with self._task_state.lock:
            return describe(self.id, self._task_state, self._computation, self._warnings)

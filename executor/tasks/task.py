"""One task as its callers see it: splits in, barriers, frames out. Thread-safe; a refused call changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...proto.errors import InvalidRequest, Refused, TidegateError
from ...proto.values import (
    NO_WISHES,
    Added,
    AddRequest,
    Committed,
    FileSplit,
    FoundFile,
    Reader,
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
from ..ledger.failed_epochs import split_to_leave_out
from ..ledger.ledger import Ledger
from ..ledger.ledger_change import LeftOut, Recovered
from ..runtime.batch_store import SpillSpace
from ..runtime.event_lines import TaskEvents
from ..runtime.idle_timer import IdleTimer
from ..runtime.scheduler import Scheduler
from ..runtime.timers import Timers
from .add_splits import Adding, now
from .describe import describe
from .epoch_threads import EpochThreads
from .output_log import Full
from .output_readers import OutputReaders
from .task_state import History, TaskState
from .task_uploads import Reception

_INTERRUPT_AGAIN_SECONDS = 0.05
_MOST_READERS = 10_000
"""The journal has the number of each reader of a task that needs it no more, and writes them all again with others."""
LINGERING_SECONDS = 1.0
"""A deleted task that works for longer counts among the tasks of its principal."""


class Task:
    """A task. `id` is unguessable; `readers` answers those who read its output.

    The task owns its computation from here on, and closes it. The computation already stands behind the barrier that
    the task is to `start` from. `idle` is called once the task was idle for its `idle_seconds`: nobody has touched it,
    no long call is in progress, and nobody waits for its rows.
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
        idle: Callable[[], None],
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
        left_out = () if history is None else history.left_out
        self._warnings = (*computation.warnings, *warnings, *map(_left_out, left_out))
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
        self._recoveries: set[str] = set()
        """The requests to recover this failed task. The task that goes on has them from the journal."""
        self._idleness = IdleTimer(
            options.idle_seconds, timers.call_later, idle, watched=self._task_state.listeners.__bool__
        )
        self._threads = EpochThreads(self._task_state, computation, checkpoints, scheduler, principal, identity)
        self.readers = OutputReaders(self._task_state, self._threads, self._idleness)
        self._left_at: float | None = None
        self._read_by = set(() if history is None else history.read_by)
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

    def add_splits(
        self, request: AddRequest, *, wake: bool = True, lends: bool = False
    ) -> tuple[list[Added], int | None]:
        """Add splits, and request a barrier if asked to.

        Without `wake` the caller calls `work` at once, so that no other thread needs to be found. Rows that the caller
        `lends` are not written to the disk if their epoch runs at once.
        """
        added: list[Added] = []
        sealed: int | None = None
        with self._task_state.lock:
            ledger = self._task_state.ledger
            if request.seal is not None and request.epoch == ledger.open.number:
                ledger.check_may_seal()  # before splits are added, so that a refused call adds none
        with self._recorded(wake=wake):
            try:
                for source, split, number in request.splits:
                    added.append(self._adding.add(source, self._own(split), number, request.epoch, lends=lends))
                    with self._task_state.lock:
                        self._threads.may_run(wake=wake)
                if request.seal is not None:
                    sealed = self._request_barrier(request.epoch, request.seal, wake=wake)
            finally:
                if lends:
                    self._adding.end_loan(sealed)
        return added, sealed

    @contextmanager
    def _recorded(self, *, wake: bool = True) -> Iterator[None]:
        """A context of changes of the ledger. When it ends, they are durable, and the epoch loop may have them.

        Raises `Unavailable` if no change can be recorded now. Without a journal, changes are as durable as they get.
        """
        task_state = self._task_state
        task_state.journal.check()
        try:
            yield
        except BaseException:
            wake = True  # a caller that fails lends no thread
            self._threads.wake()
            raise
        finally:
            if task_state.journal.keeps:
                task_state.journal.wait()
                with task_state.lock:
                    self._threads.may_run(wake=wake)
                    task_state.changed()

    def transact(self, transaction: Transaction, request: AddRequest, *, wake: bool = True) -> Transacted:
        """Add splits and a seal as one transaction. `wake` as in `add_splits`."""
        with self._recorded(wake=wake):
            self._check_checkpoint(request.seal)
            own = replace(request, splits=[(source, self._own(split), None) for source, split, _ in request.splits])
            transacted = self._adding.transact(transaction, own)
            if not transacted.replayed:
                with self._task_state.lock:
                    if request.seal is None:
                        self._threads.may_run(wake=wake)
                    else:
                        self._sealed(wake=wake)
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
        self._threads.may_run(wake=wake)
        self._task_state.changed()

    def begin_upload(self, name: str, group: str) -> Reception:
        """Begin an upload. The task is in use until the upload has ended or was dropped."""
        with self._task_state.lock:
            self._task_state.check_running()
        self._idleness.begin_use()
        try:
            return self._task_state.uploads.begin(name, group, self._idleness.end_use)
        except BaseException:
            self._idleness.end_use()
            raise

    def drop_uploads(self, group: str) -> None:
        self._task_state.uploads.drop(group)

    def hold(self, size: int) -> None:
        """Count rows that stay in memory for the task's life against the memory of splits."""
        with self._task_state.lock:
            self._task_state.queue.hold(size)

    # ------------------------------------------------------------------------------------------------- barriers

    def request_barrier(self, epoch: int | None, seal: Seal = NO_WISHES) -> int:
        with self._recorded():
            return self._request_barrier(epoch, seal)

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
                self._threads.go_on()  # run to the checkpoint, whether or not anybody reads
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
        ledger = self._task_state.ledger
        with self._recorded(), self._task_state.lock:
            self._task_state.check_running()
            before, now_us = ledger.sealed, now()
            ended = ledger.no_more_splits(source, through, now_us)
            if ended is not None:
                self._task_state.journal.record(ledger, now_us, before, ended=ended)
            if self._task_state.ledger.done:
                self._task_state.finish()
                self._threads.submit()
            self._threads.may_run()
            self._task_state.changed()

    # ---------------------------------------------------------------------------------------------------- ending

    def cancel(self, why: TidegateError | None = None) -> None:
        """End the task: tell every waiter, interrupt work in progress, and free what the task held.

        `why` is the error for waiters, if the caller did not ask for the end. A durable task is then not cancelled for
        good: it goes on when its service is started again. One that has failed is cancelled only for a caller who asks,
        because it may go on, too.
        """
        task_state = self._task_state
        with task_state.lock:
            state = task_state.phase
            may_go_on = state is TaskPhase.FAILED and task_state.journal.keeps
            ends = state is TaskPhase.RUNNING or (may_go_on and why is None)
            if ends:
                task_state.error = why
                if why is None:
                    task_state.journal.record(task_state.ledger, now(), task_state.ledger.sealed, cancelled=True)
                self._release()
                self._events.tell("task_cancelled", why="asked" if why is None else "closed", state=state.value)
        if ends:
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

    @property
    def settled(self) -> bool:
        """True if all changes are durable."""
        return self._task_state.journal.settled

    def settle(self) -> None:
        """Wait until all changes are durable."""
        self._task_state.journal.wait()

    def recover(self, skip: Sequence[tuple[str, int]], request: str) -> TaskJournal | None:
        """Record, once for each `request`, that the task, which has failed, goes on without some splits; its journal.
        None if the task is one that has gone on so.

        Raises `Refused` if it has not failed, or is not durable.
        """
        task_state = self._task_state
        journal, ledger = task_state.journal, task_state.ledger
        journal.check()
        with task_state.lock:
            if not journal.keeps:
                raise Refused(
                    "the task cannot be recovered: it is not durable, so its splits are gone; make the task again",
                    reason="NOT_DURABLE",
                )
            if request and request in ledger.failures.requests:
                return None
            repeated = bool(request) and request in self._recoveries
            if not repeated and task_state.phase is not TaskPhase.FAILED:
                raise Refused(
                    f"the task has not failed, so there is nothing to recover: it is {task_state.phase.value}",
                    reason="NOT_FAILED",
                )
            if not repeated:
                recovered = _recovered(ledger, skip, request)
                journal.record(ledger, now(), ledger.sealed, recovered=recovered)
                self._recoveries.add(request)
        journal.wait()
        return journal

    def leave(self, why: str) -> None:
        """End the task in this process, and delete its files here. The records of a durable task stay.

        May be called more than once; the log has the first call.
        """
        self._idleness.close()
        with self._task_state.lock:
            state, has_left = self._task_state.phase, self._left_at is not None
            self._left_at = self._left_at or time.monotonic()
            self._release()
        self._stop()
        if not has_left:
            self._events.tell("task_deleted", why=why, state=state.value)
        self._task_state.files.remove()

    def go_on(self) -> None:
        """Begin the work that was left before the service was started again."""
        with self._task_state.lock:
            over = self._task_state.phase is not TaskPhase.RUNNING
            self._threads.may_run()
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
        """Make the epoch loop close."""
        if not self._threads.close_soon():
            self._interrupt()

    def _interrupt(self) -> None:
        """Interrupt the computation until the epoch loop has closed. The timer holds the task until then.

        An interrupt just before a statement starts is lost, so one is not enough.
        """
        if not self._threads.closed:
            self._computation.interrupt()
            self._timers.call_later(_INTERRUPT_AGAIN_SECONDS, self._interrupt)

    def close(self) -> None:
        """End what is left, after the scheduler was closed."""
        self._idleness.close()
        self._threads.close()
        self._task_state.files.remove()

    # -------------------------------------------------------------------------------------------------- looking

    def touch(self) -> None:
        """Record that a call named the task, so that it is not idle."""
        self._idleness.used()

    def is_read_by_all(self, reader: Reader) -> bool:
        """Record that a reader needs the task no more; True if none of them does.

        Raises `Unavailable` if that cannot be made durable.
        """
        if not 1 <= reader.number <= reader.count:
            raise InvalidRequest(f"reader={reader.number} must be a number from 1 to readers={reader.count}")
        if reader.count > _MOST_READERS:
            raise InvalidRequest(f"readers={reader.count} must be at most {_MOST_READERS:,}")
        journal, ledger = self._task_state.journal, self._task_state.ledger
        journal.check()
        with self._task_state.lock:
            is_new = reader.number not in self._read_by
            self._read_by.add(reader.number)
            is_last = len(self._read_by) >= reader.count
            if is_new and not is_last:
                journal.record(ledger, now(), ledger.sealed, read_by=reader.number)
        if not is_last:  # the deletion of the task comes next, and is recorded itself
            journal.wait()
        return is_last

    @property
    def lingers(self) -> bool:
        """True if the task was deleted a while ago, and works all the same."""
        left = self._left_at
        return left is not None and not self._threads.closed and time.monotonic() - left > LINGERING_SECONDS

    def info(self) -> TaskInfo:
        with self._task_state.lock:
            return describe(self.id, self._task_state, self._computation, self._warnings)


def _left_out(split: LeftOut) -> str:
    """The warning about a split that the task was recovered without."""
    return f"split {split.sequence} of source {split.source!r} (epoch {split.epoch}) was left out by a recovery"


def _recovered(ledger: Ledger, skip: Sequence[tuple[str, int]], request: str) -> Recovered:
    splits = [split_to_leave_out(ledger.source(source), sequence) for source, sequence in skip]
    left_out = [LeftOut(source=split.source, sequence=split.sequence, epoch=ledger.epoch_of(split)) for split in splits]
    failed = ledger.current().number
    epoch = failed if failed in ledger.failures.known else 0
    return Recovered(epoch=epoch, left_out=left_out, request=request)

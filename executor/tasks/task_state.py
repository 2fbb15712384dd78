"""The state that a task's callers and the thread that runs it share, under one lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...proto.errors import TaskCancelled, TaskFailed, TidegateError, Unavailable
from ...proto.values import Cursor, Determinism, Recovery, TaskOptions, TaskPhase
from ..api.computation import Source
from ..checkpoints.regular_checkpoints import RegularCheckpoints, has_state
from ..journal.task_journal import NO_JOURNAL, TaskJournal
from ..ledger.epoch import Start
from ..ledger.ledger import Ledger
from ..ledger.ledger_change import Change, FailedEpoch, LeftOut
from ..ledger.split_book import AcceptedSplit
from ..runtime.batch_store import SpillSpace
from ..runtime.ceilings import most_splits
from ..runtime.event_lines import TaskEvents
from ..runtime.timers import Timers
from .epoch_runs import EpochRuns
from .inline_rows import SplitQueue
from .listeners import Listeners
from .output_log import Full, OutputLog
from .task_uploads import PassingUploads


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The past of a task whose service was started again: the changes of its ledger behind its start, in their order.

    The epochs up to `other_rows_through` may have other rows, or another order, when they are computed again. `read_by`
    are the readers, of several, that need the task no more.
    """

    changes: Sequence[Change]
    acknowledged: Cursor
    other_rows_through: int
    left_out: Sequence[LeftOut] = ()
    read_by: Collection[int] = ()
    lost: TidegateError | None = None
    """The reason why the task's computation could not be made again: the task has failed."""


@dataclass(slots=True)
class Counters:
    """Counters of a task. Times are in microseconds."""

    barriers_requested: int = 0
    barriers_completed: int = 0
    barrier_us: int = 0


class TaskState:
    """The shared state of a task, read and written under `lock`.

    `full`: the producer waits for a reader, or for room.
    """

    def __init__(
        self,
        options: TaskOptions,
        sources: Iterable[Source],
        space: SpillSpace,
        start: Start,
        timers: Timers,
        events: TaskEvents,
        journal: TaskJournal = NO_JOURNAL,
        history: History | None = None,
        regular: RegularCheckpoints | None = None,
    ) -> None:
        sources = tuple(sources)
        self.lock = threading.Lock()
        self._change = threading.Condition(self.lock)
        self._waiting = 0
        self.options = options
        self.events = events
        self.journal = journal
        self.regular = regular
        self.files = files = space.files
        self.quota = quota = space.quota
        self.ledger = Ledger(sources, options.max_pending_epochs, start, most_splits(options.queue_bytes))
        self.call_later = timers.call_later
        self.uploads = PassingUploads(files, quota, timers.call_later)
        self.queue = SplitQueue(options.queue_bytes, quota, files, self.ledger.fed, self.lock)
        self._runs = EpochRuns(durable=journal.keeps, repeatable=options.determinism is Determinism.STRICT)
        self.output = OutputLog(options.output_bytes, quota, start.epoch, self._runs)
        self.counters = Counters()
        self.phase = TaskPhase.RUNNING
        self.error: TidegateError | None = None
        self.full: Full | None = None
        self.last_epoch_us: int | None = None
        self.listeners = Listeners()
        self._start = self._recover_through = start.epoch
        self._open_before = 0
        """The epoch that was open when the task was recovered; 0 if it was not."""
        if history is not None:
            self._recover(history)

    def _recover(self, history: History) -> None:
        changed: set[int] = set()
        for change in history.changes:
            changed |= self._changed_by(change)
            self.ledger.repeat(change)
            if change.cancelled:
                self.phase = TaskPhase.CANCELLED
        if history.lost is not None and self.phase is TaskPhase.RUNNING:
            self.fail(history.lost, None)
        if self.phase is TaskPhase.RUNNING:
            for split in [split for change in history.changes for split, _ in change.splits]:
                if not split.left_out:
                    self.uploads.take_back(split)
        self.ledger.recovered()
        self.ledger.read(history.acknowledged.epoch - 1)
        self._recover_through, self._open_before = self.ledger.sealed, self.ledger.open.number
        self._runs.recover(history.other_rows_through, changed)
        self.output.recover(history.acknowledged, self._open_before)
        if self.phase is TaskPhase.RUNNING and self.ledger.done:
            self.phase = TaskPhase.FINISHED

    def _changed_by(self, change: Change) -> set[int]:
        """The epochs of which readers may have rows of splits that the change leaves out. Where epochs have the state
        of those before them, that is each later epoch, too, up to the one that was open then.
        """
        left_out = set() if change.recovered is None else {split.epoch for split in change.recovered.left_out}
        if not left_out or not has_state(self.options):
            return left_out
        return set(range(min(left_out), self.ledger.open.number + 1))

    def computes_again(self, epoch: int) -> bool:
        """True for an epoch of which there may have been rows before the task was recovered."""
        return epoch <= self._open_before

    @property
    def recovery(self) -> Recovery | None:
        """The progress through the epochs of before a restart; None once they are complete."""
        left = self._recover_through - self.output.completed
        if left <= 0 or self.phase is not TaskPhase.RUNNING:
            return None
        epochs = self._recover_through - self._start
        return Recovery(epochs=epochs, done=epochs - left)

    def wait(self, seconds: float) -> None:
        """Wait until something has changed, at most `seconds`. Other threads have the lock meanwhile."""
        self._waiting += 1
        try:
            self._change.wait(seconds)
        finally:
            self._waiting -= 1

    def changed(self) -> None:
        """Wake waiting readers: something has changed."""
        if self._waiting:
            self._change.notify_all()
        if self.listeners:
            goes_on = self.phase is TaskPhase.RUNNING and self.full is not Full.FULL
            self.listeners.call(before=self.output.end if goes_on else None)

    def finish(self) -> None:
        """Record that no more splits and no more rows will come."""
        self.phase = TaskPhase.FINISHED
        self.events.tell("task_finished", epochs=self.ledger.sealed, rows=self.output.rows)

    def fail(self, error: TidegateError, epoch: int | None) -> None:
        self.phase, self.error = TaskPhase.FAILED, error
        self.queue.clear()
        self.events.tell("task_failed", epoch=epoch, error=error)

    def record_failure(self, epoch: int, error: TidegateError) -> None:
        """Record that an epoch has failed, so that it fails after a restart too. Not for failures that are a bug.

        Waits until the record is durable: nobody is told of a failure that a restart forgets. Called without the lock.
        """
        if not self.journal.keeps:
            return
        failure = FailedEpoch(epoch=epoch, reason=error.reason, message=error.message)
        with self.lock:
            self.ledger.failures.known[epoch] = failure
            self.journal.record(self.ledger, time.time_ns() // 1000, self.ledger.sealed, failure=failure)
        with suppress(Unavailable):  # readers are told even so: the epoch has no rows
            self.journal.wait()

    def check_running(self) -> None:
        """Raise the error or cancellation that ended the task, if there is one."""
        match self.phase:
            case TaskPhase.CANCELLED:
                raise self.error or TaskCancelled("the task was cancelled")
            case TaskPhase.FAILED:
                raise self.failure()
            case _:
                return

    def failure(self) -> TaskFailed:
        if self.error is None:
            raise RuntimeError("a task failed without an error")
        failed = TaskFailed(f"the task has failed: {self.error}", reason=self.error.reason)
        failed.__cause__ = self.error
        return failed

    def forget_acknowledged(self) -> None:
        """Give back what is held of the epochs that are acknowledged, as far as they are computed."""
        acknowledged = self.output.last_acknowledged
        needed = min(acknowledged.epoch, self.output.completed + 1)
        self.forget(self.ledger.forget(needed))
        if self.regular is None:
            self.journal.acknowledged(acknowledged, needed)
        else:
            needed = min(needed, self.regular.first_needed(acknowledged))
            self.journal.acknowledged(acknowledged, needed, self.regular.let_go(acknowledged))

    def checkpoint_written(self, epoch: int | None) -> None:
        """Record that a checkpoint that the task takes by itself was written, or that none was."""
        with self.lock:
            if self.regular is None:
                return
            self.regular.written(epoch)
            if epoch is not None:
                self.forget_acknowledged()

    def forget(self, splits: Collection[AcceptedSplit]) -> None:
        """Give back what is held of splits whose epoch is acknowledged, or that were not added after all."""
        for split in splits:
            self.queue.forget(split)
        self.uploads.forget(splits)

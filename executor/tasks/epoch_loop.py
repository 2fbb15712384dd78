"""Runs a task's epochs, oldest first, on whatever thread steps it.

The work is the iterator that the computation gives: the loop pulls a batch, places it in the output, and so on. If the
output is full, the loop keeps the batch and ends the step, so a task that waits holds no thread. The loop keeps a
small batch back until the next one is there, so that an epoch's last rows and its BARRIER appear together.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from ...operators.arrays.behind_nulls import cleared
from ...operators.core.interrupts import Watch, interrupted, looking
from ...operators.core.piece import Piece
from ...operators.writing.staged_write import Written
from ...proto.errors import ExecutionError, InternalError, TidegateError
from ...proto.statistics import EpochStatistics
from ...proto.values import Barrier, ErrorValue, OnError, TaskPhase
from ..api.computation import Computation
from ..checkpoints.taking import Checkpoints
from ..ledger.epoch import Epoch, is_durable
from ..ledger.split_book import AcceptedSplit
from ..runtime.batch_store import Holding, SpillRun
from ..runtime.starting import has_started
from ..runtime.work_clock import WorkClock
from .before_barrier import BeforeBarrier
from .epoch_progress import EpochCheckpoint, EpochProgress, Job, error_for_user
from .loans import Loans
from .named_splits import with_splits
from .output_log import Full
from .resting import Resting
from .task_state import TaskState

_EARLY_SPLITS = 64
_LARGE_BYTES: Final = 1 << 20
"""A batch of so many bytes appears at once, whether or not the BARRIER follows: its reader has work to do with it."""
_INPUT_IS_GONE: Final = frozenset({"DATA_DAMAGED", "FILE_CHANGED", "FILE_MISSING"})
"""The reasons of failures that end once the input is back: no epoch of before a restart is skipped because of them."""
_ENGINE_HAS_ENDED: Final = "SPARK_ENDED"
"""The reason of a failure that ends with the next engine: an epoch of a durable task does not fail again of it."""
_log = logging.getLogger(__name__)


class _Turn(enum.Enum):
    """The end of a stretch of work."""

    MORE = enum.auto()
    ENDED = enum.auto()
    WAITS = enum.auto()


_NOTHING: Final = Written()
_NO_CHECKPOINT: Final = EpochCheckpoint()


class EpochLoop:
    """Runs the epochs of one task. `checkpoints` takes its checkpoints, in a service that has a folder for them.
    `wake` has the scheduler step the loop soon.
    """

    def __init__(
        self,
        task_state: TaskState,
        computation: Computation,
        checkpoints: Checkpoints | None,
        wake: Callable[[], None],
    ) -> None:
        self._task_state = task_state
        self._computation = computation
        self._before_barrier = BeforeBarrier(task_state, computation, checkpoints)
        self._tables = frozenset(source.name for source in computation.sources if source.static)
        self._progress: EpochProgress | None = None
        self._clock = WorkClock(task_state.options.epoch_seconds, task_state.call_later, computation.interrupt)
        self._watch = Watch(self._look, start_beside)
        self._resting = Resting(task_state.call_later, wake)
        self._resting.used()
        self._loans = Loans(task_state.queue, task_state.call_later, wake)
        self.closed = False

    # --------------------------------------------------------------------------------------------- what is next

    def has_work(self) -> bool:
        """True if something is running or can run now. Called under the lock."""
        progress = self._progress
        if self.closed:
            return False
        if progress is not None and progress.job is not None:
            return True
        epoch = self._task_state.ledger.current()
        return self._early_splits(epoch, 1) != () or self._may_finish(epoch)

    def _find(self) -> Job | None:
        ledger = self._task_state.ledger
        epoch = ledger.current()
        early = self._early_splits(epoch, _EARLY_SPLITS)
        if early:
            return Job(epoch, {early[0].source: early}, sealed=False)
        if not self._may_finish(epoch):
            return None
        return Job(epoch, {name: ledger.available(epoch, name) for name in ledger.fed}, sealed=True)

    def _early_splits(self, epoch: Epoch, at_most: int) -> tuple[AcceptedSplit, ...]:
        """The next splits that can run without the seal. A split that is not durable yet cannot."""
        early = self._computation.early_source
        if early is None:
            return ()
        progress = self._progress
        ran = progress.ran if progress is not None and progress.epoch is epoch else epoch.first[early] - 1
        splits = self._task_state.ledger.available(epoch, early, after=ran, at_most=at_most)
        return tuple(itertools.takewhile(lambda split: is_durable(split.commit), splits))

    def _may_finish(self, epoch: Epoch) -> bool:
        return epoch.sealed and is_durable(epoch.commit) and not self._task_state.ledger.missing(epoch)

    # -------------------------------------------------------------------------------------------------- stepping

    def step(self, until_ns: int) -> bool:
        """Work until there is nothing to do, until the reader has to catch up, or until `until_ns`.

        True if there is more to do.
        """
        self._clock.start()
        try:
            return self._step(until_ns)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this task's alone
            self._clock.stop()
            self._fail(self._clock.error() if self._clock.expired else error)
            return True
        except BaseException:
            self._fail(ExecutionError("the thread that ran the epoch was interrupted", reason="INTERRUPTED"))
            raise
        finally:
            self._clock.stop()

    def _step(self, until_ns: int) -> bool:
        while True:
            if self._task_state.phase is not TaskPhase.RUNNING:
                self._loans.settle()
                self.close()
                return False
            taken = self._take()
            if taken is None:
                self._rest()
                return False
            self._loans.settle()
            turn = self._advance(*taken, until_ns)
            self._resting.used()
            if turn is not _Turn.ENDED:
                return turn is _Turn.MORE
            self._loans.used()

    def _rest(self) -> None:
        """Between two epochs, once the task is idle."""
        self._loans.rest()
        if self._resting.due and self._progress is None:
            self._resting.begun()
            self._computation.rest()

    def _take(self) -> tuple[EpochProgress, Job] | None:
        """The epoch to go on with, and its job; None if there is nothing to do."""
        with self._task_state.lock:
            progress = self._progress
            if progress is not None and progress.job is not None:
                return progress, progress.job
            job = self._find()
            if job is None:
                return None
            if progress is None or progress.epoch is not job.epoch:
                early = self._computation.early_source
                ran = job.epoch.first[early] - 1 if early is not None else 0
                progress = self._progress = EpochProgress(job.epoch, ran)
                self._clock.work_on(job.epoch.number)
            progress.job = job
            return progress, job

    def _advance(self, progress: EpochProgress, job: Job, until_ns: int) -> _Turn:
        """Pull and place batches, until the job's rows have ended."""
        rows = progress.rows
        if rows is None:
            rows = progress.rows = self._start(progress, job)
        while True:
            if _may_be_placed(progress.held) and not self._place(progress):
                return _Turn.WAITS
            with looking(self._watch):
                batch = next(rows, None)
            if progress.error is None:
                self._clock.check()
            if batch is None:
                return self._end(progress, job)
            if batch.num_rows:
                progress.held.append(Holding((cleared(batch),)))
            if self._task_state.phase is not TaskPhase.RUNNING or time.monotonic_ns() > until_ns:
                return _Turn.MORE

    def _look(self) -> None:
        """Raise if the task has ended, or if the epoch took too long. Called during long work."""
        if self._task_state.phase is not TaskPhase.RUNNING:
            raise interrupted()
        if self._clock.expired:
            raise self._clock.error()

    def _start(self, progress: EpochProgress, job: Job) -> Iterator[pa.RecordBatch]:
        if progress.error is not None:
            return iter(())
        known = self._task_state.ledger.failures.known.get(job.epoch.number)
        if known is not None:
            raise ExecutionError(known.message, reason=known.reason)
        if progress.run is None:
            progress.run = self._computation.epoch(job.epoch.number, job.epoch.clock_us or 0)
        freed = self._computation.early_source if job.sealed and self._computation.early_frees else None
        pieces = {name: () if name == freed else _pieces(splits) for name, splits in job.splits.items()}
        if job.sealed:
            return progress.run.sealed(pieces, job.watermarks)
        (early,) = pieces.values()
        return progress.run.early(early)

    # -------------------------------------------------------------------------------------------------- placing

    def _place(self, progress: EpochProgress) -> bool:
        """Put the oldest batch kept back into the output; False if the output is full."""
        with self._task_state.lock:
            result = self._offer(progress)
            if result is None:
                self._task_state.changed()
        if isinstance(result, SpillRun):
            self._spill(progress, result)
        return not isinstance(result, Full)

    def _offer(self, progress: EpochProgress) -> SpillRun | Full | None:
        number = progress.epoch.number
        result = self._task_state.output.offer(number, progress.held[0], can_wait=self._waits_for_reader(number))
        if isinstance(result, Full):
            self._task_state.full = result
            self._task_state.changed()
        elif result is None:
            del progress.held[0]
        return result

    def _waits_for_reader(self, epoch: int) -> bool:
        """True if the epoch's rows can wait for their reader.

        They come row by row, and nobody waits for the epoch's end.
        """
        return self._computation.early_source is not None and self._task_state.ledger.checkpoint(epoch) is None

    def _spill(self, progress: EpochProgress, run: SpillRun) -> None:
        task_state = self._task_state
        try:
            file = task_state.files.write(run)
        except BaseException:
            with task_state.lock:
                task_state.output.give_back(run)
            raise
        with task_state.lock:
            task_state.output.spilled(progress.epoch.number, run, file)
            del progress.held[0]
            task_state.changed()

    def _end(self, progress: EpochProgress, job: Job) -> _Turn:
        """End the job, whose rows have ended. With its last row in place, a sealed epoch has reached its barrier."""
        while True:
            with self._task_state.lock:
                result = self._offer(progress) if progress.held else None
                if isinstance(result, Full):
                    return _Turn.WAITS
                step = self._before_barrier.next(progress) if result is None and job.sealed else None
                if result is None and step is None:
                    progress.job = progress.rows = None
                    if job.sealed:
                        self._finish(progress)
                    else:
                        self._ran_early(progress, job)
                    self._task_state.changed()
                    return _Turn.ENDED
            if result is not None:
                self._spill(progress, result)
            elif self._task_state.phase is not TaskPhase.RUNNING:
                return _Turn.MORE
            elif step is not None:
                step()

    def _ran_early(self, progress: EpochProgress, job: Job) -> None:
        (splits,) = job.splits.values()
        progress.ran = splits[-1].sequence
        if self._computation.early_frees or progress.error is not None:
            for split in splits:
                self._task_state.queue.consumed(split)

    def _finish(self, progress: EpochProgress) -> None:
        """Record that the epoch has reached its barrier. Called under the lock."""
        task_state, epoch = self._task_state, progress.epoch
        now = time.monotonic_ns()
        rows, size = task_state.output.produced(epoch.number)
        splits = task_state.ledger.finish(epoch)
        for split in splits:
            task_state.queue.consumed(split)
        barrier_us = (now - (epoch.sealed_ns or now)) // 1000
        run, written, checkpoint = progress.run, progress.written or _NOTHING, progress.checkpoint or _NO_CHECKPOINT
        statistics = EpochStatistics(
            splits=len(splits),
            rows_in=run.rows_in if run is not None else 0,
            rows_out=rows,
            bytes_in=run.bytes_in if run is not None else 0,
            bytes_out=size,
            at_least=run is not None and run.at_least,
            on_spark=run is not None and run.on_spark,
            barrier_us=barrier_us,
            run_us=(now - progress.started_ns) // 1000,
            rows_written=written.rows,
            bytes_written=written.bytes,
            files_written=written.files,
            checkpoint_us=checkpoint.took_us,
        )
        error = progress.error
        task_state.output.complete(
            Barrier(
                epoch=epoch.number,
                rows=rows,
                watermark=progress.watermark,
                statistics=statistics,
                error=ErrorValue(reason=error.reason, message=error.message) if error is not None else None,
                checkpoint=checkpoint.id,
                checkpoint_error=checkpoint.error,
                files=written.results,
            )
        )
        task_state.counters.barriers_completed += 1
        task_state.counters.barrier_us += barrier_us
        task_state.last_epoch_us = statistics.run_us
        self._progress = None
        if epoch.number < task_state.output.acknowledged.epoch:
            task_state.forget_acknowledged()
        if task_state.ledger.done:
            task_state.finish()

    # -------------------------------------------------------------------------------------------------- failing

    def _fail(self, cause: Exception) -> None:
        """Fail the epoch in progress: its rows are void. The task fails too, unless it skips failed epochs."""
        progress, task_state = self._progress, self._task_state
        if progress is not None:
            progress.drop()
        if task_state.phase is not TaskPhase.RUNNING:
            return
        error = error_for_user(cause)
        known = progress is not None and progress.epoch.number in task_state.ledger.failures.known
        if progress is not None and progress.job is not None and not known:
            error = with_splits(error, progress.job.splits, self._tables)
        may_skip = task_state.options.on_error is OnError.SKIP_EPOCH
        waits = progress is not None and not known and self._waits(progress, error)
        skips = may_skip and progress is not None and not waits
        if progress is not None and not (known or waits or isinstance(error, InternalError)):
            task_state.record_failure(progress.epoch.number, error)
        with task_state.lock:
            task_state.full = None
            if progress is not None:
                task_state.output.void(progress.epoch.number)
            if skips and progress is not None and progress.error is None:
                progress.error = error
                task_state.events.tell("epoch_skipped", logging.WARNING, epoch=progress.epoch.number, error=error)
            elif task_state.phase is TaskPhase.RUNNING:
                task_state.fail(error, None if progress is None else progress.epoch.number)
            task_state.changed()

    def _waits(self, progress: EpochProgress, error: TidegateError) -> bool:
        """True if no restart is to know that the epoch has failed, because it may not fail again: its engine has ended,
        or it may have had rows before a restart, and may have them again once its input is back.
        """
        if error.reason == _ENGINE_HAS_ENDED:
            return self._task_state.journal.keeps
        if self._task_state.options.on_error is not OnError.SKIP_EPOCH:
            return False
        return error.reason in _INPUT_IS_GONE and self._task_state.computes_again(progress.epoch.number)

    def close(self) -> None:
        """End the computation. Never called during a step; may be called more than once."""
        if self.closed:
            return
        self.closed = True
        self._clock.close()
        self._resting.close()
        self._loans.close()
        if self._progress is not None:
            self._progress.drop()
        self._progress = None
        self._computation.close()


def _may_be_placed(held: Sequence[Holding]) -> bool:
    """True if the oldest batch kept back need not wait to see whether it is the epoch's last one."""
    return len(held) > 1 or (len(held) == 1 and held[0].size >= _LARGE_BYTES)


def _pieces(splits: Sequence[AcceptedSplit]) -> tuple[Piece, ...]:
    return tuple(piece for split in splits for piece in split.pieces())


def start_beside(call: Callable[[], None]) -> None:
    """Make the call on a thread of its own, at the priority of the calling thread; on this one if there is no other."""
    if not has_started(threading.Thread(target=call, name="tidegate-beside", daemon=True)):
        call()

"""Runs a task's epochs, oldest first, on whatever thread steps it.

The work is the iterator that the computation gives: the loop pulls a batch, places it in the output, and so on. If the
output is full, the loop keeps the batch and ends the step, so a task that waits holds no thread. The loop keeps one
batch back until the next one is there, so that an epoch's last rows and its BARRIER appear together.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from ...operators.core.interrupts import Watch, looking
from ...operators.core.piece import Piece
from ...operators.writing.staged_write import Written
from ...proto.errors import ExecutionError, InternalError, TidegateError
from ...proto.statistics import EpochStatistics
from ...proto.values import Barrier, ErrorValue, OnError, TaskPhase
from ..api.computation import Computation, Effect, EpochRun, Watermarks
from ..checkpoints.state import NotedState
from ..checkpoints.taking import Checkpoints, Position
from ..ledger.epoch import Epoch, is_durable
from ..ledger.split_book import AcceptedSplit
from ..ledger.watermarks import barrier_watermark, said_by
from ..runtime.batch_store import Holding, SpillRun
from ..runtime.work_clock import WorkClock
from .named_splits import with_splits
from .output_log import Full
from .resting import Resting
from .task_state import TaskState

_EARLY_SPLITS = 64
_log = logging.getLogger(__name__)


class _Turn(enum.Enum):
    """The end of a stretch of work."""

    MORE = enum.auto()
    ENDED = enum.auto()
    WAITS = enum.auto()


@dataclass(frozen=True, slots=True)
class _Job:
    """The next thing to run: some splits ahead of the seal, or the sealed epoch."""

    epoch: Epoch
    splits: Mapping[str, Sequence[AcceptedSplit]]
    sealed: bool

    @property
    def watermarks(self) -> Watermarks:
        return said_by(self.splits, self.epoch.ended)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The outcome of an epoch's checkpoint: its id, or the reason why there is none."""

    checkpoint: str | None
    error: ErrorValue | None
    took_us: int


_NOTHING: Final = Written()
_NONE: Final = _Taken(None, None, 0)


@dataclass(slots=True)
class _Progress:
    """An epoch that has begun. `ran` is the number of the last split of the early source that was run."""

    epoch: Epoch
    ran: int
    run: EpochRun | None = None
    job: _Job | None = None
    rows: Iterator[pa.RecordBatch] | None = None
    held: list[Holding] = field(default_factory=list)
    started_ns: int = 0
    error: TidegateError | None = None
    written: Written | None = None
    taken: _Taken | None = None
    noted: bool = False


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
        self._checkpoints = checkpoints
        self._tables = frozenset(source.name for source in computation.sources if source.static)
        self._progress: _Progress | None = None
        self._clock = WorkClock(task_state.options.epoch_seconds, task_state.call_later, computation.interrupt)
        self._watch = Watch(self._look, start_beside)
        self._resting = Resting(task_state.call_later, wake)
        self._resting.used()
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

    def _find(self) -> _Job | None:
        ledger = self._task_state.ledger
        epoch = ledger.current()
        early = self._early_splits(epoch, _EARLY_SPLITS)
        if early:
            return _Job(epoch, {early[0].source: early}, sealed=False)
        if not self._may_finish(epoch):
            return None
        return _Job(epoch, {name: ledger.available(epoch, name) for name in ledger.fed}, sealed=True)

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
                self.close()
                return False
            taken = self._take()
            if taken is None:
                self._rest()
                return False
            turn = self._advance(*taken, until_ns)
            self._resting.used()
            if turn is not _Turn.ENDED:
                return turn is _Turn.MORE

    def _rest(self) -> None:
        """Between two epochs, once the task is idle."""
        if self._resting.due and self._progress is None:
            self._resting.due = False
            self._computation.rest()

    def _take(self) -> tuple[_Progress, _Job] | None:
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
                progress = self._progress = _Progress(job.epoch, ran, started_ns=time.monotonic_ns())
                self._clock.work_on(job.epoch.number)
            progress.job = job
            return progress, job

    def _advance(self, progress: _Progress, job: _Job, until_ns: int) -> _Turn:
        """Pull and place batches, until the job's rows have ended."""
        rows = progress.rows
        if rows is None:
            rows = progress.rows = self._start(progress, job)
        while True:
            if len(progress.held) > 1 and not self._place(progress):
                return _Turn.WAITS
            with looking(self._watch):
                batch = next(rows, None)
            if progress.error is None:
                self._clock.check()
            if batch is None:
                return self._end(progress, job)
            if batch.num_rows:
                progress.held.append(Holding((batch,)))
            if self._task_state.phase is not TaskPhase.RUNNING or time.monotonic_ns() > until_ns:
                return _Turn.MORE

    def _look(self) -> None:
        """Raise if the task has ended, or if the epoch took too long. Called during long work."""
        if self._task_state.phase is not TaskPhase.RUNNING:
            raise ExecutionError("interrupted", reason="INTERRUPTED")
        self._clock.check()

    def _start(self, progress: _Progress, job: _Job) -> Iterator[pa.RecordBatch]:
        if progress.error is not None:
            return iter(())
        known = self._task_state.ledger.failures.known.get(job.epoch.number)
        if known is not None:
            raise ExecutionError(known.message, reason=known.reason)
        if progress.run is None:
            progress.run = self._computation.epoch(job.epoch.number, job.epoch.clock_us or 0)
        pieces = {name: _pieces(splits) for name, splits in job.splits.items()}
        if job.sealed:
            return progress.run.sealed(pieces, job.watermarks)
        (early,) = pieces.values()
        return progress.run.early(early)

    # -------------------------------------------------------------------------------------------------- placing

    def _place(self, progress: _Progress) -> bool:
        """Put the oldest batch kept back into the output; False if the output is full."""
        with self._task_state.lock:
            result = self._offer(progress)
            if result is None:
                self._task_state.changed()
        if isinstance(result, SpillRun):
            self._spill(progress, result)
        return not isinstance(result, Full)

    def _offer(self, progress: _Progress) -> SpillRun | Full | None:
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

    def _spill(self, progress: _Progress, run: SpillRun) -> None:
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

    def _end(self, progress: _Progress, job: _Job) -> _Turn:
        """End the job, whose rows have ended. With its last row in place, a sealed epoch has reached its barrier."""
        while True:
            with self._task_state.lock:
                result = self._offer(progress) if progress.held else None
                if isinstance(result, Full):
                    return _Turn.WAITS
                step = self._before_barrier(progress) if result is None and job.sealed else None
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

    def _before_barrier(self, progress: _Progress) -> Callable[[], None] | None:
        """The next thing to do before the barrier of an epoch whose rows are in place. Called under the lock."""
        effect = _due(progress)
        if effect is not None:
            return partial(self._commit, progress, effect)
        name = self._task_state.ledger.checkpoint(progress.epoch.number)
        if name is not None and progress.taken is None and self._checkpoints is not None:
            return partial(self._take_checkpoint, progress, name)
        if not progress.noted and self._regular_due(progress):
            return partial(self._note_state, progress)
        return None

    def _commit(self, progress: _Progress, effect: Effect) -> None:
        progress.written = effect.commit()

    def _regular_due(self, progress: _Progress) -> bool:
        """True if the task is to take a checkpoint by itself. Asked once for each epoch."""
        progress.noted = True
        regular = self._task_state.regular
        seconds = (time.monotonic_ns() - progress.started_ns) / 1e9
        journal = self._task_state.journal
        if regular is None or not regular.due(seconds, self._task_state.output.acknowledged, presses=journal.presses):
            return False
        regular.begin()
        return True

    def _note_state(self, progress: _Progress) -> None:
        """Note the state at this barrier. It is written as a checkpoint while the next epochs run."""
        regular, state, events = self._task_state.regular, NotedState(), self._task_state.events
        if regular is None:
            raise InternalError("a task without state takes no checkpoints by itself")
        try:
            self._computation.save(state)
        except Exception as error:  # noqa: BLE001
            events.tell("checkpoint_failed", logging.WARNING, epoch=progress.epoch.number, error=_as_error(error))
            self._task_state.checkpoint_written(None)
        else:
            regular.write(self._position(progress), state, events, self._task_state.checkpoint_written)

    def _position(self, progress: _Progress) -> Position:
        """The barrier of an epoch whose rows are in place."""
        epoch = progress.epoch
        with self._task_state.lock:
            transactions = self._task_state.ledger.transactions.by(epoch.number)
        return Position(
            epoch=epoch.number, sources=epoch.last, transactions=transactions, watermark=_watermark(progress)
        )

    def _take_checkpoint(self, progress: _Progress, name: str) -> None:
        """Take the checkpoint. A failure fails the checkpoint alone, because the epoch is complete."""
        if self._checkpoints is None:
            raise InternalError("a checkpoint was requested, and the task has no folder for checkpoints")
        epoch, started = progress.epoch, time.monotonic_ns()
        events, checkpoint, failure = self._task_state.events, None, None
        try:
            taken = self._checkpoints.take(name, self._position(progress), self._computation.save)
            checkpoint = taken.id
            events.tell("checkpoint_taken", epoch=epoch.number, checkpoint=checkpoint, bytes=taken.size)
        except Exception as error:  # noqa: BLE001
            known = _as_error(error)
            failure = ErrorValue(reason=known.reason, message=known.message)
            events.tell("checkpoint_failed", logging.WARNING, epoch=epoch.number, error=known)
        progress.taken = _Taken(checkpoint, failure, (time.monotonic_ns() - started) // 1000)

    def _ran_early(self, progress: _Progress, job: _Job) -> None:
        (splits,) = job.splits.values()
        progress.ran = splits[-1].sequence
        if self._computation.early_frees or progress.error is not None:
            for split in splits:
                self._task_state.queue.consumed(split)

    def _finish(self, progress: _Progress) -> None:
        """Record that the epoch has reached its barrier. Called under the lock."""
        task_state, epoch = self._task_state, progress.epoch
        now = time.monotonic_ns()
        rows, size = task_state.output.produced(epoch.number)
        splits = task_state.ledger.finish(epoch)
        for split in splits:
            task_state.queue.consumed(split)
        barrier_us = (now - (epoch.sealed_ns or now)) // 1000
        run, written, taken = progress.run, progress.written or _NOTHING, progress.taken or _NONE
        statistics = EpochStatistics(
            splits=len(splits),
            rows_in=run.rows_in if run is not None else 0,
            rows_out=rows,
            bytes_in=run.bytes_in if run is not None else 0,
            bytes_out=size,
            at_least=run is not None and run.at_least,
            barrier_us=barrier_us,
            run_us=(now - progress.started_ns) // 1000,
            rows_written=written.rows,
            bytes_written=written.bytes,
            files_written=written.files,
            checkpoint_us=taken.took_us,
        )
        error = progress.error
        task_state.output.complete(
            Barrier(
                epoch=epoch.number,
                rows=rows,
                watermark=_watermark(progress),
                statistics=statistics,
                error=ErrorValue(reason=error.reason, message=error.message) if error is not None else None,
                checkpoint=taken.checkpoint,
                checkpoint_error=taken.error,
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
        self._drop(progress)
        if task_state.phase is not TaskPhase.RUNNING:
            return
        error = _as_error(cause)
        known = progress is not None and progress.epoch.number in task_state.ledger.failures.known
        if progress is not None and progress.job is not None and not known:
            error = with_splits(error, progress.job.splits, self._tables)
        with task_state.lock:
            if progress is not None and not known and not isinstance(error, InternalError):
                task_state.record_failure(progress.epoch.number, error)
            task_state.full = None
            if progress is not None:
                task_state.output.void(progress.epoch.number)
            if task_state.options.on_error is OnError.SKIP_EPOCH and progress is not None and progress.error is None:
                progress.error = error
                task_state.events.tell("epoch_skipped", logging.WARNING, epoch=progress.epoch.number, error=error)
            elif task_state.phase is TaskPhase.RUNNING:
                task_state.fail(error, None if progress is None else progress.epoch.number)
            task_state.changed()

    def _drop(self, progress: _Progress | None) -> None:
        """Close the rows in progress. An error while closing is not the error of the epoch."""
        if progress is None:
            return
        rows, progress.rows, progress.held = progress.rows, None, []
        close = getattr(rows, "close", None)
        if close is not None:
            try:
                close()
            except Exception:  # noqa: BLE001
                _log.exception("closing a failed epoch failed too")
        if progress.run is not None and progress.run.effect is not None:
            progress.run.effect.drop()

    def close(self) -> None:
        """End the computation. Never called during a step; may be called more than once."""
        if self.closed:
            return
        self.closed = True
        self._clock.close()
        self._resting.close()
        self._drop(self._progress)
        self._progress = None
        self._computation.close()


def _due(progress: _Progress) -> Effect | None:
    """The epoch's effect outside of the task, if it is due: the rows are in place, and it is not committed yet."""
    if progress.error is not None or progress.run is None or progress.written is not None:
        return None
    return progress.run.effect


def _watermark(progress: _Progress) -> int | None:
    """The watermark that the epoch has made final; None if the epoch failed."""
    return None if progress.error is not None or progress.run is None else barrier_watermark(progress.run.watermark)


def _pieces(splits: Sequence[AcceptedSplit]) -> tuple[Piece, ...]:
    return tuple(piece for split in splits for piece in split.pieces())


def _as_error(error: Exception) -> TidegateError:
    """The error for the user: an error of the user's as it is, any other error as a bug of Tidegate."""
    if isinstance(error, TidegateError):
        return error
    _log.error("a bug in Tidegate: an epoch failed", exc_info=error)
    return InternalError(f"a bug in Tidegate ended the epoch ({type(error).__name__}); the log has the traceback")


def start_beside(call: Callable[[], None]) -> None:
    """Make the call on a thread of its own, at the priority of the calling thread."""
    threading.Thread(target=call, name="tidegate-beside", daemon=True).start()

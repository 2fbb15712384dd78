"""The work between an epoch's last row and its BARRIER: its effect outside of the task is committed, and its state is
saved.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from ...proto.errors import InternalError
from ...proto.values import Checkpoint, ErrorValue
from ..api.computation import Computation, Effect
from ..checkpoints.state import NotedState
from ..checkpoints.taking import Checkpoints, Position
from ..ledger.epoch import Epoch
from .epoch_progress import EpochCheckpoint, EpochProgress, error_for_user
from .task_state import TaskState


class BeforeBarrier:
    """Commits the effects of a task's epochs and takes its checkpoints; `checkpoints` is None in a service that has no
    folder for them.
    """

    def __init__(self, task_state: TaskState, computation: Computation, checkpoints: Checkpoints | None) -> None:
        self._task_state = task_state
        self._computation = computation
        self._checkpoints = checkpoints

    def next(self, progress: EpochProgress) -> Callable[[], None] | None:
        """The next thing to do for an epoch whose rows are in place; None if its BARRIER may follow. Called under the
        lock; the work is done without it.
        """
        effect = progress.effect
        if effect is not None:
            return partial(self._commit, progress, effect)
        name = self._task_state.ledger.checkpoint(progress.epoch.number)
        if name is not None and progress.checkpoint is None and self._checkpoints is not None:
            return partial(self._take_checkpoint, progress, self._checkpoints, name)
        if not progress.noted and self._regular_due(progress):
            return partial(self._note_state, progress)
        return None

    def _commit(self, progress: EpochProgress, effect: Effect) -> None:
        progress.written = effect.commit()

    def _regular_due(self, progress: EpochProgress) -> bool:
        """True if the task is to take a checkpoint by itself. Asked once for each epoch."""
        progress.noted = True
        regular = self._task_state.regular
        seconds = (time.monotonic_ns() - progress.started_ns) / 1e9
        journal = self._task_state.journal
        if regular is None or not regular.due(seconds, self._task_state.output.acknowledged, presses=journal.presses):
            return False
        regular.begin()
        return True

    def _note_state(self, progress: EpochProgress) -> None:
        """Note the state at this barrier. It is written as a checkpoint while the next epochs run."""
        regular, state, events = self._task_state.regular, NotedState(), self._task_state.events
        if regular is None:
            raise InternalError("a task without state takes no checkpoints by itself")
        try:
            self._computation.save(state)
        except Exception as error:  # noqa: BLE001
            known = error_for_user(error)
            events.tell("checkpoint_failed", logging.WARNING, epoch=progress.epoch.number, error=known)
            self._task_state.checkpoint_written(None)
        else:
            regular.write(self._position(progress), state, events, self._task_state.checkpoint_written)

    def _take_checkpoint(self, progress: EpochProgress, checkpoints: Checkpoints, name: str) -> None:
        """Take the checkpoint. A failure fails the checkpoint alone, because the epoch is complete."""
        epoch, started = progress.epoch, time.monotonic_ns()
        events, checkpoint, failure = self._task_state.events, None, None
        try:
            taken = self._replaced_by(epoch, checkpoints, name)
            if taken is None:
                taken = checkpoints.take(name, self._position(progress), self._computation.save)
            checkpoint = taken.id
            events.tell("checkpoint_taken", epoch=epoch.number, checkpoint=checkpoint, bytes=taken.size)
        except Exception as error:  # noqa: BLE001
            known = error_for_user(error)
            failure = ErrorValue(reason=known.reason, message=known.message)
            events.tell("checkpoint_failed", logging.WARNING, epoch=epoch.number, error=known)
        progress.checkpoint = EpochCheckpoint(checkpoint, failure, (time.monotonic_ns() - started) // 1000)

    def _replaced_by(self, epoch: Epoch, checkpoints: Checkpoints, name: str) -> Checkpoint | None:
        """The checkpoint that a later epoch has put in the place of this epoch's one, before the service was started
        again; None if there is none. The name never goes back to an earlier epoch.
        """
        task_state = self._task_state
        if not task_state.computes_again(epoch.number):
            return None
        taken = checkpoints.taken(name)
        if taken is None or taken.epoch <= epoch.number:
            return None
        with task_state.lock:
            return taken if task_state.ledger.checkpoint(taken.epoch) == name else None

    def _position(self, progress: EpochProgress) -> Position:
        """The barrier of an epoch whose rows are in place."""
        epoch = progress.epoch
        with self._task_state.lock:
            transactions = self._task_state.ledger.transactions.by(epoch.number)
        return Position(epoch=epoch.number, sources=epoch.last, transactions=transactions, watermark=progress.watermark)

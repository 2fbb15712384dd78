"""Waits for readers of a task: they must make room before more is fed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from ..proto.errors import CheckpointError, Exhausted, Refused
from ..task import Task

A = TypeVar("A")

_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_UNREAD: Final = ("TOO_MANY_PENDING_EPOCHS", "BARRIER_IN_PROGRESS", "OUTPUT_UNREAD")


class Patience:
    """A limit of `seconds` for all waiting, from the first wait on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self._pause = _PAUSE

    def pause(self) -> bool:
        """Wait a little; False once the time is over."""
        now = time.monotonic()
        self._deadline = now + self._seconds if self._deadline is None else self._deadline
        if now >= self._deadline:
            return False
        time.sleep(min(self._pause, self._deadline - now))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def once_read(call: Callable[[], A], seconds: float) -> A:
    """The call's answer. Repeats the call for up to `seconds` while the task waits for its readers."""
    patience = Patience(seconds)
    while True:
        try:
            return call()
        except (Exhausted, Refused) as full:
            if full.reason not in _UNREAD or not patience.pause():
                raise


def checkpointed(task: Task, epoch: int, seconds: float, *, restored: bool) -> None:
    """Return once the epoch, or a later one, has its checkpoint.

    An epoch that was complete before a task was `restored` behind it is in the checkpoint of that restore.
    """
    patience = Patience(seconds)
    while True:
        info = task.info()
        if info.completed_epoch >= epoch:
            if restored or any(checkpoint.epoch >= epoch for checkpoint in task.checkpoints()):
                return
            if info.sealed_epoch == info.completed_epoch:
                raise CheckpointError(
                    f"epoch {epoch} of task {task.id} is complete and has no checkpoint; the epoch's BARRIER gives "
                    "the reason",
                )
        if not info.runs:
            raise Refused(
                f"task {task.id} is {info.state.value} and takes no more checkpoints, and epoch {epoch} has none: "
                "restore the task's last checkpoint as a new task, and start the query again",
                reason="NO_CHECKPOINT_ANY_MORE",
            )
        if not patience.pause():
            raise TimeoutError(f"epoch {epoch} of task {task.id} had no checkpoint within {seconds:g} seconds")

"""Decides when a task has been idle for so long that it gives its engine back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..runtime.idle_timer import IdleTimer
from ..runtime.work_clock import CallLater

IDLE_SECONDS: Final = 3.0
"""After so long it costs little to make operators again: some tens of milliseconds."""


class Resting:
    """`wake` is called once the task was not `used` for `IDLE_SECONDS`; then a rest is `due` until it is used again."""

    def __init__(self, call_later: CallLater, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._timer = IdleTimer(IDLE_SECONDS, call_later, self._rest)
        self.due = False

    def used(self) -> None:
        """The task is warm, and not idle."""
        self.due = False
        self._timer.used()

    def close(self) -> None:
        """The task is over."""
        self._timer.close()

    def _rest(self) -> None:
        self.due = True
        self._wake()

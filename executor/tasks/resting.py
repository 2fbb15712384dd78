"""Decides when a task has been idle for so long that it gives its engine back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from ..runtime.work_clock import CallLater, Timer

IDLE_SECONDS: Final = 3.0
"""After so long it costs little to make operators again: some tens of milliseconds."""


class Resting:
    """`wake` is called once the task was not `used` for `IDLE_SECONDS`; then a rest is `due` until it is used again. A
    task that is used again and again costs one call of a timer in that time, whatever it does.
    """

    def __init__(self, call_later: CallLater, wake: Callable[[], None]) -> None:
        self._call_later = call_later
        self._wake = wake
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._used_at = 0.0
        self._closed = False
        self.due = False

    def used(self) -> None:
        """The task is warm, and not idle."""
        self._used_at = time.monotonic()
        self.due = False
        if self._timer is None:
            with self._lock:
                if not self._closed:
                    self._timer = self._call_later(IDLE_SECONDS, self._look)

    def close(self) -> None:
        """The task is over."""
        with self._lock:
            self._closed = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look(self) -> None:
        with self._lock:
            if self._closed:
                return
            left = self._used_at + IDLE_SECONDS - time.monotonic()
            if left > 0:
                self._timer = self._call_later(left, self._look)
                return
            self._timer = None
            self.due = True
        self._wake()

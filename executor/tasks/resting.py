"""Decides when a task has been idle for so long that it gives its engine back."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Final

from ..runtime.idle_timer import IdleTimer
from ..runtime.work_clock import CallLater

IDLE_SECONDS: Final = 3.0
"""After so long it costs little to make operators again: some tens of milliseconds."""
LONGEST_SECONDS: Final = 60.0
"""The longest that a task waits which is used at intervals."""
_INTERVALS: Final = 3
MOST_PATIENT: Final = 32
"""Tasks of this process that wait longer than others. Each of them holds its engine, of about 4 MiB, all the time."""

_patient: weakref.WeakSet[Resting] = weakref.WeakSet()
_lock = threading.Lock()


class Resting:
    """`wake` is called once the task was not `used` for `IDLE_SECONDS`; then a rest is `due` until it is used again.

    A task that is used again soon after a rest would make its engine anew for each epoch. It waits for three times that
    interval, and rests if it is not used meanwhile.
    """

    def __init__(self, call_later: CallLater, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._timer = IdleTimer(IDLE_SECONDS, call_later, self._rest)
        self._used_at = time.monotonic()
        self._rests = False
        self.due = False

    def used(self) -> None:
        """The task is warm, and not idle."""
        now = time.monotonic()
        if self._rests:
            self._rests = False
            self._wait_for_intervals_of(now - self._used_at)
        self._used_at = now
        self.due = False
        self._timer.used()

    def begun(self) -> None:
        """The task has given its engine back."""
        self.due = False
        self._rests = True
        self._leave()

    def _wait_for_intervals_of(self, seconds: float) -> None:
        with _lock:
            patient = seconds < LONGEST_SECONDS and len(_patient) < MOST_PATIENT
            if patient:
                _patient.add(self)
        wait = min(_INTERVALS * seconds, LONGEST_SECONDS) if patient else IDLE_SECONDS
        self._timer.seconds = max(wait, IDLE_SECONDS)

    def _leave(self) -> None:
        with _lock:
            _patient.discard(self)

    def close(self) -> None:
        """The task is over."""
        self._rests = False
        self._leave()
        self._timer.close()

    def _rest(self) -> None:
        self.due = True
        self._wake()

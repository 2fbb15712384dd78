"""Enforces `epoch_seconds`: interrupts an epoch whose task has worked on it for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from ...proto.errors import ExecutionError

_AGAIN_SECONDS: Final = 0.05


class Timer(Protocol):
    """A call to come, which can be cancelled."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class WorkClock:
    """Adds up the stretches of work on one epoch, without the time of waiting for splits, a seal or a reader.

    Once the sum is more than `seconds`, the clock calls `interrupt` again and again until the stretch has ended, and
    `check` raises. 0 seconds means no bound.
    """

    def __init__(self, seconds: float, call_later: CallLater, interrupt: Callable[[], None]) -> None:
        self._seconds = seconds
        self._call_later = call_later
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._epoch = 0
        self._done = 0.0
        self._since: float | None = None
        self._timer: Timer | None = None
        self.expired = False

    def work_on(self, epoch: int) -> None:
        """Count the following work for `epoch`. A new epoch begins at zero."""
        with self._lock:
            if epoch != self._epoch:
                self._epoch, self._done, self.expired = epoch, 0.0, False
                if self._since is not None:
                    self._since = time.monotonic()

    def start(self) -> None:
        """Begin a stretch of work."""
        if not self._seconds:
            return
        with self._lock:
            self._since = time.monotonic()
            if self._timer is None and not self.expired:
                self._timer = self._call_later(self._left(), self._look)

    def stop(self) -> None:
        """End the stretch of work: the clock interrupts nothing any more."""
        if not self._seconds:
            return
        with self._lock:
            if self._since is not None:
                self._done += time.monotonic() - self._since
                self._since = None

    def close(self) -> None:
        """End all counting."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def check(self) -> None:
        if self.expired:
            raise self.error()

    def error(self) -> ExecutionError:
        return ExecutionError(
            f"epoch {self._epoch} took more than {self._seconds:g} seconds of work (the option epoch_seconds)",
            reason="EPOCH_SECONDS",
        )

    def _left(self) -> float:
        now = 0.0 if self._since is None else time.monotonic() - self._since
        return self._seconds - self._done - now

    def _look(self) -> None:
        with self._lock:
            if self._since is None:  # the next stretch schedules the call again
                self._timer = None
                return
            left = self._left()
            if left <= 0:
                self.expired = True
                self._interrupt()
            self._timer = self._call_later(max(left, _AGAIN_SECONDS), self._look)

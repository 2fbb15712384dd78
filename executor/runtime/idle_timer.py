"""Finds out when something has been idle for long: nobody has used it, and nobody has it in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .work_clock import CallLater, Timer


class IdleTimer:
    """Calls `idle` once after the first use, when `seconds` have passed in which nothing was `used`, `in_use` or
    `watched`; and again after each later use. 0 seconds: never. Thread-safe.

    A thing that is used again and again costs one call of a timer in that time, whatever it does. `seconds` may change.
    """

    def __init__(
        self,
        seconds: float,
        call_later: CallLater,
        idle: Callable[[], None],
        watched: Callable[[], bool] = lambda: False,
    ) -> None:
        self.seconds = seconds
        self._call_later = call_later
        self._idle = idle
        self._watched = watched
        self._lock = threading.Lock()
        self._timer: Timer | None = None
        self._used_at = 0.0
        self._users = 0
        self._closed = seconds <= 0

    def used(self) -> None:
        self._used_at = time.monotonic()
        if self._timer is None:
            with self._lock:
                if self._timer is None and not self._closed:
                    self._timer = self._call_later(self.seconds, self._look)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self.begin_use()
        try:
            yield
        finally:
            self.end_use()

    def begin_use(self) -> None:
        with self._lock:
            self._users += 1

    def end_use(self) -> None:
        with self._lock:
            self._users -= 1
        self.used()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look(self) -> None:
        with self._lock:
            if self._closed:
                return
            busy = self._users or self._watched()
            left = self.seconds if busy else self._used_at + self.seconds - time.monotonic()
            self._timer = self._call_later(left, self._look) if left > 0 else None
        if left <= 0:
            self._idle()

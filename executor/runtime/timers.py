"""Calls at a later time, on one thread that exists only while there are calls to make."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from .starting import has_started

_log = logging.getLogger(__name__)


_FEW: Final = 64
"""The number of cancelled calls that may stay in the queue."""


class Timer:
    """A call to be made later."""

    __slots__ = ("_call", "_timers")

    def __init__(self, timers: Timers, call: Callable[[], None]) -> None:
        self._timers = timers
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the call, and drop the objects that it holds. Harmless after the call was made."""
        if self.take() is not None:
            self._timers.given_up()

    def take(self) -> Callable[[], None] | None:
        """Take the call in order to make it; None if it was made or cancelled before."""
        call, self._call = self._call, None
        return call

    @property
    def is_over(self) -> bool:
        return self._call is None


class Timers:
    """A queue of calls. Calls must be short. No call is made after `close`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._calls: list[tuple[float, int, Timer]] = []
        self._given_up = 0
        self._ordinal = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        """The number of queued calls, including cancelled ones."""
        return len(self._calls)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self, call)
        with self._condition:
            if self._closed:
                return timer
            heapq.heappush(self._calls, (time.monotonic() + seconds, next(self._ordinal), timer))
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="tidegate-timers", daemon=True)
                self._thread = thread if has_started(thread) else None  # else the next call asks again
            self._condition.notify()
        return timer

    def given_up(self) -> None:
        """Count one more cancelled call, and tidy the queue once most of its calls are cancelled."""
        with self._condition:
            self._given_up += 1
            if self._given_up > _FEW and 2 * self._given_up > len(self._calls):
                self._calls = [call for call in self._calls if not call[2].is_over]
                heapq.heapify(self._calls)
                self._given_up = 0

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._calls.clear()
            self._condition.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (timer := self._due()) is not None:
            call = timer.take()
            del timer
            try:
                if call is not None:
                    call()
            except Exception:  # noqa: BLE001  # logged; the others go on
                _log.exception("a timed call failed")
            del call  # while the thread waits for the next call, it holds nothing of the last one

    def _due(self) -> Timer | None:
        with self._condition:
            while not self._closed:
                wait = self._calls[0][0] - time.monotonic() if self._calls else None
                if wait is not None and wait <= 0:
                    timer = heapq.heappop(self._calls)[2]
                    self._given_up -= timer.is_over and self._given_up > 0
                    return timer
                self._condition.wait(wait if wait is None else min(wait, threading.TIMEOUT_MAX))
            return None

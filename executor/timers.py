"""Calls at a later time, on one thread of their own that exists only once there is one to make."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Timers:
    """The calls must be short. None is made after `close`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []
        self._ordinal = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        with self._condition:
            if self._closed:
                return
            heapq.heappush(self._calls, (time.monotonic() + seconds, next(self._ordinal), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tidegate-timers", daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._calls.clear()
            self._condition.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (call := self._due()) is not None:
            try:
                call()
            except Exception:  # noqa: BLE001  # logged; the others go on
                _log.exception("a timed call failed")

    def _due(self) -> Callable[[], None] | None:
        with self._condition:
            while not self._closed:
                wait = self._calls[0][0] - time.monotonic() if self._calls else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._calls)[2]
                self._condition.wait(wait if wait is None else min(wait, threading.TIMEOUT_MAX))
            return None

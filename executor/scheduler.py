"""A few threads that run many tasks in turns.

A work is stepped by one thread at a time, for a slice of time or until it has nothing to do; then it goes to the end
of the line. One that waits (for splits, a seal, a reader) is in no line and holds no thread. A caller who waits for a
result may lend its own thread to the work.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE_NS = 20_000_000
LENT_SLICE_NS = 50_000_000
"""A caller that waits for a result anyway stays with it: on a busy machine a short epoch takes a slice's time, too."""


class Work(Protocol):
    def step(self, until_ns: int) -> bool:
        """Go on until about this time of `monotonic_ns`; whether there is more to do now. Must not raise."""
        ...


class _State(enum.Enum):
    IDLE = enum.auto()
    QUEUED = enum.auto()
    RUNNING = enum.auto()
    AGAIN = enum.auto()


class Slot:
    """A work's place in the scheduler."""

    __slots__ = ("state", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.state = _State.IDLE

    @property
    def waiting(self) -> bool:
        """It has something to do and no thread yet."""
        return self.state is _State.QUEUED


class Scheduler:
    """Threads start with the first work that needs one, and end with `close`.

    `delay` is for tests: called before every step, it may sleep to shake the order in which things happen.
    """

    def __init__(self, threads: int, delay: Callable[[], None] | None = None) -> None:
        self._limit = threads
        self._delay = delay
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._queue: deque[Slot] = deque()
        self._threads: list[threading.Thread] = []
        self._lenders: list[int] = []
        self._idle = 0
        self._closed = False
        self._stepping = threading.local()

    @property
    def stepping(self) -> bool:
        """Whether the calling thread is inside of a step: it must not wait for another, which may need a thread."""
        return getattr(self._stepping, "depth", 0) > 0

    @property
    def helpers(self) -> int:
        """How many threads may help with one task at a time, so that one is left for the others."""
        return max(1, self._limit - 2)

    def shake(self) -> None:
        """The tests' delay, if there is one."""
        if self._delay is not None:
            self._delay()

    def submit(self, slot: Slot, *, wake: bool = True) -> None:
        """There may be something to do for this work. Without `wake` the caller lends it a thread, or calls `wake`."""
        with self._lock:
            if slot.state is _State.RUNNING:
                slot.state = _State.AGAIN
            elif slot.state is _State.IDLE:
                self._enqueue(slot, wake=wake)

    def wake(self) -> None:
        """Find a thread for the works that were submitted without one."""
        with self._lock:
            if self._queue:
                self._wake()

    def lend(self, slot: Slot) -> bool:
        """Run one slice of a queued work on the calling thread; False if it was not waiting for a thread."""
        with self._lock:
            if slot.state is not _State.QUEUED:
                return False
            self._queue.remove(slot)
            slot.state = _State.RUNNING
            self._lenders.append(threading.get_ident())
        try:
            self._run(slot, LENT_SLICE_NS)
        finally:
            self._lent()
        return True

    def close(self) -> None:
        """Wait for the steps in progress, those on lent threads too, but for the caller's own; nothing runs afterwards.

        A work that was to be stepped once more is not: whoever made it ends it.
        """
        with self._lock:
            self._closed = True
            for slot in self._queue:
                slot.state = _State.IDLE
            self._queue.clear()
            self._condition.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        with self._lock:
            while any(lender != threading.get_ident() for lender in self._lenders):
                self._condition.wait()

    def _lent(self) -> None:
        """The calling thread is its own again."""
        with self._lock:
            self._lenders.remove(threading.get_ident())
            if self._closed:
                self._condition.notify_all()

    def _enqueue(self, slot: Slot, *, wake: bool = True) -> None:
        if self._closed:
            return
        slot.state = _State.QUEUED
        self._queue.append(slot)
        if wake:
            self._wake()

    def _wake(self) -> None:
        if self._idle >= len(self._queue):
            self._condition.notify()
        elif len(self._threads) < self._limit:
            thread = threading.Thread(target=self._work, name=f"tidegate-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    # ------------------------------------------------------------------------------------------------- workers

    def _work(self) -> None:
        while (slot := self._next()) is not None:
            self._run(slot)

    def _next(self) -> Slot | None:
        with self._lock:
            while not self._queue:
                if self._closed:
                    return None
                self._idle += 1
                self._condition.wait()
                self._idle -= 1
            slot = self._queue.popleft()
            slot.state = _State.RUNNING
            return slot

    def _run(self, slot: Slot, slice_ns: int = SLICE_NS) -> None:
        more = False
        depth = getattr(self._stepping, "depth", 0)
        self._stepping.depth = depth + 1
        try:
            self.shake()
            more = slot.work.step(time.monotonic_ns() + slice_ns)
        finally:
            self._stepping.depth = depth
            self._ran(slot, more)

    def _ran(self, slot: Slot, more: bool) -> None:
        with self._lock:
            again = more or slot.state is _State.AGAIN
            slot.state = _State.IDLE
            if again:
                self._enqueue(slot)

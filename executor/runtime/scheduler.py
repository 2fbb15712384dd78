"""A few threads that run many tasks in turns.

A work is stepped by one thread at a time, for a slice of time or until it has nothing to do; then it goes to the end
of the line. One that waits (for splits, a seal, a reader) is in no line and holds no thread. A caller who waits for a
result may lend its own thread to the work.

Turns go by principal and by task, so that nobody gets more of them by having more to do. A step cannot be stopped, and
some last long: a statement gives nothing before it is done. A thread whose step is long goes on at a lower priority,
is replaced where others wait for one, and ends with its step.
"""

from __future__ import annotations

import enum
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from .fair_queue import FairQueue

SLICE_NS = 20_000_000
LENT_SLICE_NS = 50_000_000
"""A caller that waits for a result anyway stays with it: on a busy machine a short epoch takes a slice's time, too."""


LONG_NS: Final = 100_000_000
"""A step that has lasted this long keeps nobody else waiting."""
MOST_LONG: Final = 64
"""Threads in long steps, but for one of each principal that has none."""
_LONG_NICENESS: Final = 5
"""A third of the processor time that a thread has that is not nice."""
_LOOK_SECONDS: Final = LONG_NS / 4e9


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
    """A work's place in the scheduler, and whose it is. One that is submitted in the step of another is of the same."""

    __slots__ = ("principal", "state", "task", "work")

    def __init__(self, work: Work, principal: str = "", task: str = "") -> None:
        self.work = work
        self.principal = principal
        self.task = task
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
        self._queue: FairQueue[Slot] = FairQueue()
        self._threads: list[_Thread] = []
        self._long: list[_Thread] = []
        self._started = 0
        self._watch = threading.Condition(self._lock)
        self._watcher: threading.Thread | None = None
        self._watches = False
        self._lenders: list[int] = []
        self._idle = 0
        self._closed = False
        self._stepping = threading.local()

    @property
    def stepping(self) -> bool:
        """Whether the calling thread is inside of a step: it must not wait for another, which may need a thread."""
        return self._stepped is not None

    @property
    def _stepped(self) -> Slot | None:
        return getattr(self._stepping, "slot", None)

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
                if not slot.task and (stepped := self._stepped) is not None:
                    slot.principal, slot.task = stepped.principal, stepped.task
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
            self._watch.notify()
            threads = (*self._threads, *self._long, *([self._watcher] if self._watcher is not None else ()))
        for thread in threads:
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
            self._start()

    def _start(self) -> None:
        self._started += 1
        thread = _Thread(self._work, f"tidegate-{self._started}")
        self._threads.append(thread)
        thread.start()

    # ------------------------------------------------------------------------------------------------- workers

    def _work(self, thread: _Thread) -> None:
        while (slot := self._next(thread)) is not None:
            self._run(slot)

    def _next(self, thread: _Thread) -> Slot | None:
        with self._lock:
            if thread in self._long:
                self._long.remove(thread)
                return None
            thread.slot = None
            while not self._queue:
                if self._closed:
                    return None
                self._idle += 1
                self._condition.wait()
                self._idle -= 1
            slot = self._queue.popleft()
            slot.state = _State.RUNNING
            thread.slot, thread.began_ns = slot, time.monotonic_ns()
            if not self._watches:
                self._begin_to_watch()
            return slot

    def _begin_to_watch(self) -> None:
        self._watches = True
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch_steps, name="tidegate-watch", daemon=True)
            self._watcher.start()
        else:
            self._watch.notify()

    def _watch_steps(self) -> None:
        """While works are stepped, look for threads in long steps."""
        with self._lock:
            while not self._closed:
                self._watches = any(thread.slot is not None for thread in self._threads) or bool(len(self._queue))
                self._relieve()
                self._watch.wait(_LOOK_SECONDS if self._watches else None)

    def _relieve(self) -> None:
        """Take the threads in long steps out of those that steps wait for; replace as many as works wait for one."""
        now = time.monotonic_ns()
        for thread in [each for each in self._threads if each.slot is not None and now - each.began_ns >= LONG_NS]:
            if not self._may_replace():
                break
            self._threads.remove(thread)
            self._long.append(thread)
            thread.yield_to_others()
            if len(self._queue) > self._idle:
                self._start()

    def _may_replace(self) -> bool:
        """Whether one more thread may be in a long step: of a principal that waits and has none, always."""
        if len(self._long) < MOST_LONG:
            return True
        running = {each.slot.principal for each in self._long if each.slot is not None}
        return any(slot.principal not in running for slot in self._queue)

    def _run(self, slot: Slot, slice_ns: int = SLICE_NS) -> None:
        more = False
        around = self._stepped
        self._stepping.slot = slot
        try:
            self.shake()
            more = slot.work.step(time.monotonic_ns() + slice_ns)
        finally:
            self._stepping.slot = around
            self._ran(slot, more)

    def _ran(self, slot: Slot, more: bool) -> None:
        with self._lock:
            again = more or slot.state is _State.AGAIN
            slot.state = _State.IDLE
            if again:
                self._enqueue(slot)


class _Thread(threading.Thread):
    """`slot` is the work it steps, since `began_ns`."""

    def __init__(self, work: Callable[[_Thread], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.slot: Slot | None = None
        self.began_ns = 0

    def run(self) -> None:
        self._work(self)

    def yield_to_others(self) -> None:
        """Have others run first for as long as this thread lives, where the system knows threads' priorities."""
        if sys.platform == "linux" and self.native_id is not None:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.native_id, os.getpriority(os.PRIO_PROCESS, 0) + _LONG_NICENESS)

"""A few threads that run many tasks in turns.

The scheduler steps a work on one thread at a time, for a slice of time or until the work has nothing to do. Then the
work goes to the end of the line. A work that waits (for splits, a seal, a reader) is in no line and holds no thread. A
caller that waits for a result may lend its own thread to the work.

Turns go by principal and by task, so that no principal and no task gets more turns by having more to do. A step cannot
be stopped, and some steps last long: a statement gives nothing before it is done. A thread in a long step goes on at a
lower priority. If other works wait for a thread, the scheduler replaces it, and the thread ends with its step. A
principal with many works that may step for long starts them one after the other (`admission.py`).
"""

from __future__ import annotations

import enum
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from .admission import Admission
from .fair_queue import FairQueue
from .starting import has_started

_log = logging.getLogger(__name__)

SLICE_NS = 20_000_000
LENT_SLICE_NS = 50_000_000
"""The slice of a lent thread. The caller waits anyway, and on a busy machine a short epoch may take this long."""


LONG_NS: Final = 100_000_000
"""The length of a step from which its thread counts as long, and no longer keeps other works waiting."""
MOST_LONG: Final = 64
"""The most threads in long steps, beside one for each principal that has none."""
_AT_ONCE: Final = 4
"""The fewest works of a principal that may step for long and start at once; as many as threads, if these are more."""
_DOUBTS: Final = 8
"""Short steps after a long one until a work's next step is taken for short: an epoch with a long step has others."""
_LONG_NICENESS: Final = 5
"""The niceness of long steps: the thread gets about a third of the processor time of a normal one."""
_LOOK_SECONDS: Final = LONG_NS / 4e9


class Work(Protocol):
    """A task's work, which the scheduler runs step by step."""

    def step(self, until_ns: int) -> bool:
        """Work until about `until_ns` of `monotonic_ns`; True if there is more to do now. Must not raise."""
        ...


class _State(enum.Enum):
    IDLE = enum.auto()
    QUEUED = enum.auto()
    RUNNING = enum.auto()
    AGAIN = enum.auto()


class Slot:
    """A work's place in the scheduler, and its owner. A slot submitted during a step of another has the same owner.

    `doubts` is the number of short steps, ones that use little of a processor's time, that the work has to make until
    its next step is taken for short, too.
    """

    __slots__ = ("doubts", "principal", "state", "task", "work")

    def __init__(self, work: Work, principal: str = "", task: str = "") -> None:
        self.work = work
        self.principal = principal
        self.task = task
        self.doubts = 1
        self.state = _State.IDLE

    @property
    def waiting(self) -> bool:
        """True while the work has something to do and no thread yet."""
        return self.state is _State.QUEUED


class Scheduler:
    """Runs works on a few threads, which start with the first work that needs one and end with `close`. At most
    `task_threads` of them, or two, work for one task at a time.
    """

    def __init__(self, threads: int, task_threads: int | None = None) -> None:
        self._limit = threads
        self._task_threads = task_threads or threads
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._queue: FairQueue[Slot] = FairQueue()
        self._admission: Admission[Slot] = Admission(max(_AT_ONCE, threads))
        self._threads: list[_Thread] = []
        self._long: list[_Thread] = []
        self._started = 0
        self._watch = threading.Condition(self._lock)
        self._watcher: threading.Thread | None = None
        self._watches = False
        self._lenders: list[int] = []
        self._idle = 0
        self._lacks_threads = False
        """True if the system had no thread left when a worker was last to be started."""
        self._closed = False
        self._stepping = threading.local()

    @property
    def stepping(self) -> bool:
        """True on a thread inside of a step. Such a thread must not wait for another step, which may need a thread."""
        return self._stepped is not None

    @property
    def _stepped(self) -> Slot | None:
        return getattr(self._stepping, "slot", None)

    @property
    def helpers(self) -> int:
        """The number of threads that may help one task at a time, so that one thread is left for other tasks."""
        return max(1, min(self._limit - 1, self._task_threads) - 1)

    def submit(self, slot: Slot, *, wake: bool = True) -> None:
        """Put a work in line. Without `wake` the caller lends the work a thread, or calls `wake` afterwards."""
        with self._lock:
            if slot.state is _State.RUNNING:
                slot.state = _State.AGAIN
            elif slot.state is _State.IDLE:
                if not slot.task and (stepped := self._stepped) is not None:
                    slot.principal, slot.task, slot.doubts = stepped.principal, stepped.task, stepped.doubts
                self._enqueue(slot, wake=wake)

    def wake(self) -> None:
        """Find threads for the works that were submitted without one."""
        with self._lock:
            if self._queue:
                self._wake()

    def lend(self, slot: Slot) -> bool:
        """Run one slice of a queued work on the calling thread; False if the work was not waiting for a thread."""
        with self._lock:
            if slot.state is not _State.QUEUED:
                return False
            if not self._admission.withdraw(slot):
                self._queue.remove(slot)
            slot.state = _State.RUNNING
            self._lenders.append(threading.get_ident())
        try:
            self._run(slot, LENT_SLICE_NS)
        finally:
            self._lent()
        return True

    def close(self) -> None:
        """Wait for the steps in progress, on lent threads too, except for the caller's own step.

        Nothing runs afterwards.

        A work that was still to be stepped is not stepped: its owner ends it.
        """
        with self._lock:
            self._closed = True
            for slot in (*self._queue, *self._admission):
                slot.state = _State.IDLE
            self._queue.clear()
            self._admission.clear()
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
        """Give the calling thread back to its owner."""
        with self._lock:
            self._lenders.remove(threading.get_ident())
            if self._closed:
                self._condition.notify_all()

    def _enqueue(self, slot: Slot, *, wake: bool = True) -> None:
        if self._closed:
            return
        slot.state = _State.QUEUED
        if not slot.doubts or self._admission.admit(slot):
            self._put_in_line(slot, wake=wake)
        elif not self._watches:
            self._begin_to_watch()

    def _put_in_line(self, slot: Slot, *, wake: bool = True) -> None:
        self._queue.append(slot)
        if wake:
            self._wake()

    def _wake(self) -> None:
        if self._idle >= len(self._queue):
            self._condition.notify()
        elif len(self._threads) < self._limit:
            self._start()

    def _start(self) -> bool:
        """Start a worker. False where the system has no thread left: the watcher asks again while works wait."""
        thread = _Thread(self._work, f"tidegate-{self._started + 1}")
        self._lacks_threads = not has_started(thread)
        if self._lacks_threads:
            return False
        self._started += 1
        self._threads.append(thread)
        return True

    # ------------------------------------------------------------------------------------------------- workers

    def _work(self, thread: _Thread) -> None:
        while (slot := self._next(thread)) is not None:
            try:
                self._run(slot)
            except Exception:  # noqa: BLE001  # a bug, which ends no thread that others need
                _log.exception("a step raised")

    def _next(self, thread: _Thread) -> Slot | None:
        with self._lock:
            thread.slot = None
            if thread in self._long:
                self._long.remove(thread)
                if self._threads or not self._lacks_threads:
                    return None
                self._threads.append(thread)
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
        if self._watcher is None:
            watcher = threading.Thread(target=self._watch_steps, name="tidegate-watch", daemon=True)
            if not has_started(watcher):
                return  # the next step of a worker asks again
            self._watcher = watcher
        self._watches = True
        self._watch.notify()

    def _watch_steps(self) -> None:
        """Look for threads in long steps, as long as works are stepped."""
        with self._lock:
            while not self._closed:
                busy = any(thread.slot is not None for thread in self._threads)
                self._watches = busy or len(self._queue) > 0 or self._admission.holds_back
                self._relieve()
                for slot in self._admission.due():
                    self._put_in_line(slot)
                if self._lacks_threads and self._queue:
                    self._wake()
                self._watch.wait(_LOOK_SECONDS if self._watches else None)

    def _relieve(self) -> None:
        """Take threads in long steps out of the count of workers, and start as many new ones as works wait for."""
        now = time.monotonic_ns()
        for thread in [
            candidate
            for candidate in self._threads
            if candidate.slot is not None and now - candidate.began_ns >= LONG_NS
        ]:
            if not self._may_replace():
                break
            if len(self._queue) > self._idle and not self._start():
                break
            self._threads.remove(thread)
            self._long.append(thread)
            thread.yield_to_others()
            if thread.slot is not None:
                self._admission.is_long(thread.slot)

    def _may_replace(self) -> bool:
        """True if one more thread may be in a long step. A waiting principal that has none always may."""
        if len(self._long) < MOST_LONG:
            return True
        running = {thread.slot.principal for thread in self._long if thread.slot is not None}
        return any(slot.principal not in running for slot in self._queue)

    def _run(self, slot: Slot, slice_ns: int = SLICE_NS) -> None:
        more = False
        around = self._stepped
        self._stepping.slot = slot
        began_ns, used_ns = time.monotonic_ns(), time.thread_time_ns()
        try:
            more = slot.work.step(began_ns + slice_ns)
        finally:
            self._stepping.slot = around
            is_long = time.monotonic_ns() - began_ns >= LONG_NS and time.thread_time_ns() - used_ns >= LONG_NS
            self._ran(slot, more, is_long=is_long)

    def _ran(self, slot: Slot, more: bool, *, is_long: bool) -> None:
        with self._lock:
            again = more or slot.state is _State.AGAIN
            slot.state = _State.IDLE
            slot.doubts = _DOUBTS if is_long else max(0, slot.doubts - 1)
            for admitted in self._admission.ended(slot):
                self._put_in_line(admitted)
            if again:
                self._enqueue(slot)


class _Thread(threading.Thread):
    """A worker thread. `slot` is the work that it steps, since `began_ns`."""

    def __init__(self, work: Callable[[_Thread], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.slot: Slot | None = None
        self.began_ns = 0

    def run(self) -> None:
        self._work(self)

    def yield_to_others(self) -> None:
        """Lower the thread's priority for the rest of its life, where the system knows thread priorities."""
        if sys.platform == "linux" and self.native_id is not None:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.native_id, os.getpriority(os.PRIO_PROCESS, 0) + _LONG_NICENESS)

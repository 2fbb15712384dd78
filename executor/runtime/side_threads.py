"""Threads that make calls on behalf of operators, apart from the threads that run tasks: look-ups that wait for outside
systems, files that are read ahead.

Each operator has a `SideQueue` of its own. The calls of a queue begin in order, and only a limited number of them run
at a time. The queues take turns, so a slow index delays only its own queue. No thread exists before the first call. A
thread that was idle for a second releases the memory that the results of its calls had.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import pyarrow as pa

from .starting import has_started

T = TypeVar("T")

LOOKUP_THREADS: Final = 64
_IDLE_SECONDS: Final = 1.0


class SideThreads:
    """Up to `threads` threads, named for their `purpose`. `close` cancels the calls that have not begun."""

    def __init__(self, threads: int = LOOKUP_THREADS, purpose: str = "lookup") -> None:
        self._limit = threads
        self._purpose = purpose
        self._condition = threading.Condition()
        self._queues: deque[SideQueue] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def queue(self, limit: int) -> SideQueue:
        """A queue that runs up to `limit` calls at a time, and never more than half of the threads."""
        queue = SideQueue(self, max(1, min(limit, self._limit // 2)))
        with self._condition:
            self._queues.append(queue)
        return queue

    def close(self, grace: float = 5.0) -> None:
        """Cancel waiting calls, then wait up to `grace` seconds for running ones.

        A call that hangs longer is abandoned.
        """
        with self._condition:
            self._closed = True
            queues = tuple(self._queues)
            self._condition.notify_all()
        for queue in queues:
            queue.close()
        until = time.monotonic() + grace
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _enqueue(self, queue: SideQueue, call: _Call) -> None:
        with self._condition:
            if self._closed or queue.closed:
                call.future.cancel()
                return
            queue.waiting.append(call)
            self._find_thread()
            if self._threads:
                return
            queue.waiting.remove(call)
        call.run()  # the system has no thread for it

    def _remove(self, queue: SideQueue) -> list[_Call]:
        with self._condition:
            queue.closed = True
            if queue in self._queues:
                self._queues.remove(queue)
            waiting = list(queue.waiting)
            queue.waiting.clear()
        return waiting

    def _find_thread(self) -> None:
        """Wake or start a thread. Each call that may begin needs one: idle threads may be about to take other calls."""
        ready = sum(min(len(queue.waiting), queue.limit - queue.running) for queue in self._queues)
        if self._idle >= ready:
            self._condition.notify()
        elif len(self._threads) < self._limit:
            name = f"tidegate-{self._purpose}-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            if has_started(thread):
                self._threads.append(thread)

    # ------------------------------------------------------------------------------------------------- workers

    def _work(self) -> None:
        seconds: float | None = _IDLE_SECONDS
        while not self._closed:
            ready = self._next(seconds)
            if ready is None:
                pa.default_memory_pool().release_unused()  # only the thread that took the memory can release it
                seconds = None
                continue
            queue, call = ready
            try:
                call.run()
            finally:
                with self._condition:
                    queue.running -= 1
                del call, ready  # the thread keeps no reference: the result belongs to its reader
            seconds = _IDLE_SECONDS

    def _next(self, seconds: float | None) -> tuple[SideQueue, _Call] | None:
        """The next call to run; None once all is closed, or if there is none for so many seconds."""
        with self._condition:
            while (ready := self._ready()) is None and not self._closed:
                self._idle += 1
                is_woken = self._condition.wait(seconds)
                self._idle -= 1
                if not is_woken:
                    return None
            return ready

    def _ready(self) -> tuple[SideQueue, _Call] | None:
        """The next call of the first queue that may begin one; that queue then goes to the end of the line."""
        for _ in range(len(self._queues)):
            queue = self._queues[0]
            self._queues.rotate(-1)
            if queue.waiting and queue.running < queue.limit:
                queue.running += 1
                return queue, queue.waiting.popleft()
        return None


class SideQueue:
    """The calls of one operator. The operator uses `submit`; the task uses `close`."""

    def __init__(self, threads: SideThreads, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: deque[_Call] = deque()
        self.closed = False
        self._threads = threads

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Schedule `call` and return its future. After `close` the future is already cancelled."""
        future: Future[T] = Future()
        self._threads._enqueue(self, _Call(future, call))
        return future

    def close(self) -> None:
        """Cancel calls that have not begun; running calls end by themselves.

        Never blocks; may be called more than once.
        """
        for call in self._threads._remove(self):
            call.future.cancel()


class _Call:
    __slots__ = ("_call", "future")

    def __init__(self, future: Future[Any], call: Callable[[], Any]) -> None:
        self.future = future
        self._call = call

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

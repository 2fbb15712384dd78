"""A second thread for the work on a window: NumPy gathers and sorts without the interpreter's lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Queue: TypeAlias = "SimpleQueue[Callable[[], None] | None]"


class SecondThread:
    """Works beside the thread that calls it, until `close`. It begins with the first call.

    It is no thread of a pool: Python ends all pools when the main thread ends, and other threads may go on to train.
    """

    def __init__(self) -> None:
        self._queue: _Queue = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin the work once the thread is free."""
        future: Future[T] = Future()
        self._queue.put(partial(_complete, future, partial(work, *args, **kwargs)))
        if self._thread is None:
            self._thread = threading.Thread(
                target=_work_off, args=(self._queue,), name="tidegate-training-second", daemon=True
            )
            self._thread.start()
        return future

    def share(self, tasks: Sequence[Callable[[bool], T]]) -> list[T]:
        """The results of all tasks, of which each thread takes the next one that is left. A task is told whether the
        second thread runs it.
        """
        left = iter(range(len(tasks)))  # gives each number to one thread alone
        results: dict[int, T] = {}

        def work(*, is_second: bool) -> None:
            try:
                for number in left:
                    results[number] = tasks[number](is_second)
            except BaseException:
                deque(left, maxlen=0)  # nobody wants the others' results
                raise

        beside = self.submit(work, is_second=True)
        try:
            work(is_second=False)
        finally:
            beside.result()
        return [results[number] for number in range(len(tasks))]

    def close(self) -> None:
        """Let the thread end after its work. No more work can be submitted."""
        self._queue.put(None)


def _work_off(queue: _Queue) -> None:
    while (work := queue.get()) is not None:
        work()
        del work  # it has the rows of a window, which nobody may want any more


def _complete(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # raised where the result is taken
        future.set_exception(error)
    else:
        future.set_result(result)

"""A second thread for the work on a window: NumPy gathers and sorts without the interpreter's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SecondThread:
    """Works beside the thread that calls it, until `close`. It begins with the first call."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="tidegate-training-second")

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin the work once the thread is free."""
        return self._threads.submit(work, *args, **kwargs)

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

        beside = self._threads.submit(work, is_second=True)
        try:
            work(is_second=False)
        finally:
            beside.result()
        return [results[number] for number in range(len(tasks))]

    def close(self) -> None:
        """Let the thread end after its work."""
        self._threads.shutdown(wait=False)

"""Calls that end in time: what hangs is given up, so that whoever comes after it is measured all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from queue import SimpleQueue
from typing import Any, Final, TypeVar

START_SECONDS: Final = 60.0
"""Until a server says where it listens."""

CALL_SECONDS: Final = 600.0
"""Of a contender's call."""

CASE_SECONDS: Final = 5_400.0
"""Of a case, with all that it sets up."""

T = TypeVar("T")


class Patience:
    """Makes calls on a thread of its own, the same one until a call takes longer than `seconds`.

    That call raises `TimeoutError`. It cannot be stopped, so it keeps its thread, which does not keep the process.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] | None = None

    def call(self, what: Callable[[], T]) -> T:
        if self._calls is None:
            self._calls = SimpleQueue()
            threading.Thread(target=_make, args=(self._calls,), daemon=True).start()
        answer: Future[T] = Future()
        self._calls.put((what, answer))
        try:
            return answer.result(self._seconds)
        except NotYet:
            if answer.done():
                raise  # its own
            self._calls = None
            raise TimeoutError(f"no answer after {self._seconds:g} s: given up") from None


def within(seconds: float, what: Callable[[], T]) -> T:
    """A single such call."""
    return Patience(seconds).call(what)


def _make(calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]]) -> None:
    while True:
        what, answer = calls.get()
        try:
            answer.set_result(what())
        except BaseException as error:  # noqa: BLE001 - the caller's, whatever it is
            answer.set_exception(error)
        del what, answer

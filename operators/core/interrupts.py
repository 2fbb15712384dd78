"""Where long work looks whether it is to stop.

Who steps a run says for its thread what to look at; what may take long calls `look` between its pieces, however deep
it is inside of operators. A call that has no pieces, such as a sort, is made beside: this thread looks meanwhile. So
nothing is handed from one to the other, and no operator can forget to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

R = TypeVar("R")

Look = Callable[[], None]
Start = Callable[[Callable[[], None]], object]

MANY: Final = 1 << 18
"""Rows from which on a call is worth a thread beside: a sort of so many takes 20 ms and more."""
_LOOK_SECONDS: Final = 0.05
_VALUES: Final = 16_384

_thread = threading.local()


@dataclass(frozen=True, slots=True)
class Watch:
    """`look` raises where the thread's work is to stop. `start` makes a call on a thread beside it, if there is one."""

    look: Look
    start: Start | None = None


@contextmanager
def looking(at: Watch) -> Iterator[None]:
    """What this thread does meanwhile looks so."""
    around = current()
    _thread.watch = at
    try:
        yield
    finally:
        _thread.watch = around


@contextmanager
def unwatched() -> Iterator[None]:
    """What this thread does meanwhile is done to its end: what is half done could not be undone."""
    around = current()
    _thread.watch = None
    try:
        yield
    finally:
        _thread.watch = around


def current() -> Watch | None:
    """How this thread looks: for who has others do a part of its work."""
    return getattr(_thread, "watch", None)


def look() -> None:
    """Raises where the run that this thread steps is to stop. Cheap enough for every batch."""
    watch = current()
    if watch is not None:
        watch.look()


def values_of(array: pa.Array) -> Iterator[Any]:
    """The values for Python, which takes its time for each."""
    for start in range(0, len(array), _VALUES):
        look()
        yield from array.slice(start, _VALUES).to_pylist()


def beside(call: Callable[[], R], rows: int) -> R:
    """What a call over so many rows gives. It must change nothing: where the work is to stop, the call goes on to its
    end without anybody who waits for it.
    """
    watch = current()
    if watch is None:
        return call()
    watch.look()
    if watch.start is None or rows < MANY:
        return call()
    made = _Made(call)
    watch.start(made.run)
    try:
        while not made.done.wait(_LOOK_SECONDS):
            watch.look()
    except BaseException:
        made.abandoned = True
        raise
    return made.result()


class _AbandonedError(Exception):
    """Nobody waits for the call any more."""


class _Made(Generic[R]):
    """A call on another thread."""

    def __init__(self, call: Callable[[], R]) -> None:
        self.done = threading.Event()
        self.abandoned = False
        self._call: Callable[[], R] | None = call
        self._values: list[R] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        try:
            with looking(Watch(self._look)):
                self._values.append(call())
        except BaseException as error:  # noqa: BLE001 (raised where the call is waited for)
            self._error = error
        finally:
            self.done.set()

    def _look(self) -> None:
        if self.abandoned:
            raise _AbandonedError

    def result(self) -> R:
        if self._error is not None:
            raise self._error
        return self._values.pop()

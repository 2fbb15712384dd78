"""Stops long work early: the checks that an operator makes between pieces of its work.

The caller that steps a run sets a `Watch` for its thread. Long work calls `look` between its pieces, however deep
inside of operators it is. A call without pieces, such as a sort, runs on another thread beside this one, while this
thread looks. So operators need not pass the watch on, and none can forget it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from ...proto.errors import ExecutionError

R = TypeVar("R")

Look = Callable[[], None]
Start = Callable[[Callable[[], None]], object]

MANY: Final = 1 << 18
"""The fewest rows for which a call is worth a second thread: a sort of so many rows takes 20 ms and more."""
_LOOK_SECONDS: Final = 0.05
_VALUES: Final = 16_384


class _Thread(threading.local):
    watch: Watch | None = None


_thread = _Thread()


@dataclass(frozen=True, slots=True)
class Watch:
    """A thread's watch. `look` raises where the thread's work is to stop. `start` makes a call on another thread, if
    there is one.
    """

    look: Look
    start: Start | None = None


class looking:  # noqa: N801  # a class costs a fifth of a generator's context, which is entered for every batch
    """Set the watch of this thread for the work inside the context."""

    __slots__ = ("_around", "_at")

    def __init__(self, at: Watch | None) -> None:
        self._at = at

    def __enter__(self) -> None:
        self._around = _thread.watch
        _thread.watch = self._at

    def __exit__(self, *exception: object) -> None:
        _thread.watch = self._around


def unwatched() -> looking:
    """Keep the work inside the context from being interrupted: half of it could not be undone."""
    return looking(None)


def current() -> Watch | None:
    """The watch of this thread, for work that hands a part to other threads."""
    return _thread.watch


def look() -> None:
    """Raise where the run that this thread steps is to stop. The call is cheap enough for every batch."""
    watch = _thread.watch
    if watch is not None:
        watch.look()


def interrupted(where: str = "") -> ExecutionError:
    """The error of work that was interrupted in this place."""
    return ExecutionError(f"{where}: interrupted" if where else "interrupted", reason="INTERRUPTED")


def values_of(array: pa.Array) -> Iterator[Any]:
    """The array's values as Python objects, with looks in between: Python is slow for each value."""
    for start in range(0, len(array), _VALUES):
        look()
        yield from array.slice(start, _VALUES).to_pylist()


def beside(call: Callable[[], R], rows: int) -> R:
    """The result of a call over `rows` rows. The call must have no effect: where the work is to stop, the call goes on
    to its end, and nobody waits for its result.
    """
    watch = _thread.watch
    if watch is None:
        return call()
    watch.look()
    if rows < MANY or watch.start is None:
        return call()
    watched = _Made(call)
    watch.start(watched.run)
    try:
        while not watched.done.wait(_LOOK_SECONDS):
            watch.look()
    except BaseException:
        watched.abandoned = True
        raise
    return watched.result()


class _AbandonedError(Exception):
    """Raised inside a call that nobody waits for any more."""


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

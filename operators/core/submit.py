"""The interface by which an operator runs a slow call to another system on a thread of the executor. Operators start no
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

T = TypeVar("T")


class Submit(Protocol):
    """Have `call` made, perhaps on another thread. The future may be cancelled as long as the call does not run."""

    def __call__(self, call: Callable[[], T], /) -> Future[T]: ...


def at_once(call: Callable[[], T], /) -> Future[T]:
    """`Submit` on the calling thread: for calls that compute and do not wait."""
    future: Future[T] = Future()
    try:
        future.set_result(call())
    except Exception as error:  # noqa: BLE001 - it is raised where the result is taken
        future.set_exception(error)
    return future

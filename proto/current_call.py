"""The call for which the current thread works, and a check that its caller still waits for the answer."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_left: ContextVar[Callable[[], bool] | None] = ContextVar("tidegate-caller-has-left", default=None)


def work_for(left: Callable[[], bool]) -> None:
    """Make the current context work for a caller. `left` says whether the caller has gone; any thread may call it."""
    _left.set(left)


def caller_has_left() -> bool:
    """True once the caller has gone. False where nothing can tell, as in a process that calls itself."""
    left = _left.get()
    return left is not None and left()

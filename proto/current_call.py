"""The call that the current code works for: whether anybody still waits for what it answers."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_left: ContextVar[Callable[[], bool] | None] = ContextVar("tidegate-caller-has-left", default=None)


def work_for(left: Callable[[], bool]) -> None:
    """From now on the current context works for a caller of whom `left` says whether it has gone. Any thread asks."""
    _left.set(left)


def caller_has_left() -> bool:
    """False where nobody can say, as in a process that calls itself."""
    left = _left.get()
    return left is not None and left()

"""The call for which the current thread works: a check that its caller still waits for the answer, and a way to wait
without keeping other calls from a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TypeAlias

Elsewhere: TypeAlias = Callable[[bool], AbstractContextManager[None]]

_left: ContextVar[Callable[[], bool] | None] = ContextVar("tidegate-caller-has-left", default=None)
_elsewhere: ContextVar[Elsewhere] = ContextVar("tidegate-elsewhere", default=lambda _: nullcontext())


def work_for(left: Callable[[], bool]) -> None:
    """Make the current context work for a caller. `left` says whether the caller has gone; any thread may call it."""
    _left.set(left)


def caller_has_left() -> bool:
    """True once the caller has gone. False where nothing can tell, as in a process that calls itself."""
    left = _left.get()
    return left is not None and left()


def wait_in(elsewhere: Elsewhere) -> None:
    """Make the current context wait for what is slow inside `elsewhere(in_turn)`."""
    _elsewhere.set(elsewhere)


def elsewhere(*, in_turn: bool = True) -> AbstractContextManager[None]:
    """A context for work that may wait, such as for a slow folder. Where calls share threads, other calls have the
    thread's place meanwhile, and the call waits for a place at the end. Such contexts may be nested.

    The work may also take a core. So few calls of a principal are in such contexts at once, but for calls that only
    wait, which need not be `in_turn`.
    """
    return _elsewhere.get()(in_turn)

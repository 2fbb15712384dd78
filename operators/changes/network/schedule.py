"""Schedules: which of the work at hand is done next. No answer depends on it."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Work(Protocol):
    def work(self) -> None: ...


class Schedule(Protocol):
    """`whole` says that a lane which is chosen is emptied, and changes that stand in it together are given as one."""

    whole: bool

    def add(self, work: Work) -> None:
        """There is something to do for it; it is not added again before it has been chosen."""

    def next(self) -> Work | None:
        """What to do now; None when there is nothing."""

    def pressed(self) -> None:
        """Much waits to be delivered, and more is coming: raises where that is not to be."""

    def clear(self) -> None:
        """Forget all work."""


class InOrder:
    """First come, first served."""

    whole = True

    def __init__(self) -> None:
        self._ready: deque[Work] = deque()

    def add(self, work: Work) -> None:
        self._ready.append(work)

    def next(self) -> Work | None:
        return self._ready.popleft() if self._ready else None

    def pressed(self) -> None:
        pass

    def clear(self) -> None:
        self._ready.clear()

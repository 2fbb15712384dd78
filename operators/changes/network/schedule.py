"""Schedules: which of the work at hand is done next. No answer depends on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

_WEIGH_EVERY: Final = 256
"""Steps between looks at the size of what there is."""


class Work(Protocol):
    def work(self) -> None: ...


class Schedule(Protocol):
    """`whole` says that a queue which is chosen is emptied, and changes that stand in it together are given as one."""

    whole: bool

    def add(self, work: Work) -> None:
        """There is something to do for it; it is not added again before it has been chosen."""

    def next(self) -> Work | None:
        """What to do now; None when there is nothing."""

    def check(self) -> None:
        """Raises if the work is to stop: asked within a step that goes on for long."""

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

    def check(self) -> None:
        pass

    def pressed(self) -> None:
        pass

    def clear(self) -> None:
        self._ready.clear()


class Watched(InOrder):
    """Stops the work where `check` raises; once in a while, and where much is under way, also where `weigh` does."""

    def __init__(self, check: Callable[[], None], weigh: Callable[[], None]) -> None:
        super().__init__()
        self._check = check
        self._weigh = weigh
        self._steps = 0

    def next(self) -> Work | None:
        self._check()
        self._steps += 1
        if self._steps % _WEIGH_EVERY == 0:
            self._weigh()
        return self._ready.popleft() if self._ready else None

    def check(self) -> None:
        self._check()

    def pressed(self) -> None:
        self._check()
        self._weigh()

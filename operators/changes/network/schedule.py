"""Decides in which order the nodes of a network work. No result depends on this order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ...core.room import HasRoom

_WEIGH_EVERY: Final = 256
"""The steps between two calls of `check_memory`."""


class Work(Protocol):
    def work(self) -> None: ...


class Schedule(Protocol):
    """The order of work. `whole` says that a chosen queue is emptied, and that neighbouring changes in it are delivered
    as one.
    """

    whole: bool

    def add(self, work: Work) -> None:
        """Add work that is to be done. It is not added again before it has been chosen."""

    def next(self) -> Work | None:
        """The work to do now; None when there is none."""

    def check(self) -> None:
        """Raise if the work is to stop. Long steps call it."""

    def pressed(self) -> None:
        """Note that much waits to be delivered, and more is coming. Raise where that is too much."""

    def has_room(self, size: int) -> bool:
        """True where state may take so many bytes more for a while."""

    def need_room(self, size: int) -> None:
        """Raise unless state may take so many bytes more for a while."""

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

    def has_room(self, size: int) -> bool:  # noqa: ARG002 - nothing is bounded
        return True

    def need_room(self, size: int) -> None:
        pass

    def clear(self) -> None:
        self._ready.clear()


class Watched(InOrder):
    """A schedule that stops the work where `check` raises. Once in a while, and where much is under way, it also calls
    `check_memory`, which may raise. `room` says whether there is room for so many bytes, and `refuse` raises where
    there is none.
    """

    def __init__(
        self, check: Callable[[], None], check_memory: Callable[[], None], room: HasRoom, refuse: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._check = check
        self._check_memory = check_memory
        self._room = room
        self._refuse = refuse
        self._steps = 0

    def next(self) -> Work | None:
        self._check()
        self._steps += 1
        if self._steps % _WEIGH_EVERY == 0:
            self._check_memory()
        return self._ready.popleft() if self._ready else None

    def check(self) -> None:
        self._check()

    def pressed(self) -> None:
        self._check()
        self._check_memory()

    def has_room(self, size: int) -> bool:
        return self._room(size)

    def need_room(self, size: int) -> None:
        if not self._room(size):
            self._refuse(size)

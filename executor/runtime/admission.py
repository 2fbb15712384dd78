"""Admission of works that may step for long: beyond a few, each principal's works start one after the other.

A long step cannot be stopped, and threads in long steps that all run together end no sooner for it. Meanwhile every
other thread waits for a processor, and for the interpreter's lock behind threads that wait for a processor. So a work
whose last steps were short runs at once, and the others wait where their principal has many of them. The more of them
run, the longer the next one waits; none waits for another's end, which may never come.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from .fair_queue import FairQueue, Owned

PAUSE_NS: Final = 500_000_000
"""The time between two works that step for long, for each such work beyond the number that may start at once."""

T = TypeVar("T", bound=Owned)


class Admission(Generic[T]):
    """The works that were admitted, and those that are held back. Called under the scheduler's lock.

    Every principal may have `at_once` works. Beyond them a work is on trial until its step has ended, or has turned out
    to be long. While a work is on trial, or for a pause after it turned out to be long, the next one is held back.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._works: dict[str, _Works[T]] = {}
        self._waiting: dict[str, _Works[T]] = {}
        """The principals that have works which are held back."""
        self._pauses: list[tuple[int, str]] = []
        """The ends of pauses, and their principals, as a heap: the watcher looks at no others."""

    def __iter__(self) -> Iterator[T]:
        """All works that are held back."""
        for works in self._waiting.values():
            yield from works.held

    @property
    def holds_back(self) -> bool:
        return bool(self._waiting)

    def admit(self, work: T) -> bool:
        """Admit a work; False if it is held back until `ended` or `due` returns it."""
        works = self._works.get(work.principal)
        if works is None:
            works = self._works[work.principal] = _Works()
        if works.held or not works.may_admit(self._at_once):
            works.held.append(work)
            self._waiting[work.principal] = works
            return False
        works.admit(work, self._at_once)
        return True

    def withdraw(self, work: T) -> bool:
        """Take a work out of those that are held back; False if it is not one of them."""
        works = self._works.get(work.principal)
        if works is None or work not in works.held:
            return False
        works.held.remove(work)
        self._tidy(work.principal)
        return True

    def is_long(self, work: T) -> None:
        """Record that the step of a work has turned out to be long."""
        works = self._works.get(work.principal)
        if works is not None and works.on_trial is work:
            works.on_trial = None
            works.next_ns = time.monotonic_ns() + PAUSE_NS * (len(works.admitted) - self._at_once)
            heapq.heappush(self._pauses, (works.next_ns, work.principal))

    def ended(self, work: T) -> list[T]:
        """Record the end of a work's step. Returns the works that are admitted now."""
        works = self._works.get(work.principal)
        if works is None or work not in works.admitted:
            return []
        works.admitted.remove(work)
        if works.on_trial is work:
            works.on_trial = None
        return self._refill(work.principal)

    def due(self) -> list[T]:
        """The works that are admitted now, because a pause has ended."""
        now = time.monotonic_ns()
        admitted: list[T] = []
        while self._pauses and self._pauses[0][0] <= now:
            principal = heapq.heappop(self._pauses)[1]
            if principal in self._waiting:
                admitted += self._refill(principal)
        return admitted

    def clear(self) -> None:
        self._works.clear()
        self._waiting.clear()
        self._pauses.clear()

    def _refill(self, principal: str) -> list[T]:
        works = self._works[principal]
        admitted: list[T] = []
        while works.held and works.may_admit(self._at_once):
            admitted.append(works.held.popleft())
            works.admit(admitted[-1], self._at_once)
        self._tidy(principal)
        return admitted

    def _tidy(self, principal: str) -> None:
        works = self._works[principal]
        if works.held:
            return
        self._waiting.pop(principal, None)
        if not works.admitted:
            del self._works[principal]


class _Works(Generic[T]):
    """The works of a principal. `next_ns` is the time of the next trial."""

    def __init__(self) -> None:
        self.admitted: set[T] = set()
        self.held: FairQueue[T] = FairQueue()
        self.on_trial: T | None = None
        self.next_ns = 0

    def may_admit(self, at_once: int) -> bool:
        return len(self.admitted) < at_once or (self.on_trial is None and time.monotonic_ns() >= self.next_ns)

    def admit(self, work: T, at_once: int) -> None:
        if len(self.admitted) >= at_once:
            self.on_trial = work
        self.admitted.add(work)

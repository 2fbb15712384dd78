"""What waits to be decided, by its time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Generic, TypeVar

from .change import Rounds

Item = TypeVar("Item")


class Agenda(Generic[Item]):
    """Items under times; the earliest time, lexicographically, is at hand without looking at the others."""

    def __init__(self) -> None:
        self._items: dict[Rounds, list[Item]] = {}
        self._times: list[Rounds] = []

    def add(self, rounds: Rounds, item: Item) -> None:
        found = self._items.get(rounds)
        if found is None:
            self._items[rounds] = [item]
            heapq.heappush(self._times, rounds)
        else:
            found.append(item)

    def first(self) -> Rounds | None:
        return self._times[0] if self._times else None

    def take(self, rounds: Rounds) -> Iterable[Item]:
        """The items under the first time, which `rounds` must be, or none where that is later."""
        if not self._times or self._times[0] != rounds:
            return ()
        heapq.heappop(self._times)
        return self._items.pop(rounds)

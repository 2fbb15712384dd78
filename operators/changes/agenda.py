"""Items that wait for a time (an epoch, or a round of loops), in the order of their times."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from .values.change import Rounds

Item = TypeVar("Item")


class Agenda(Generic[Item]):
    """Items under times. The lexicographically earliest time is at hand without a look at the others."""

    def __init__(self) -> None:
        self._items: dict[Rounds, list[Item]] = {}
        self._times: list[Rounds] = []
        self._measured: dict[Rounds, tuple[int, int]] = {}

    def add(self, rounds: Rounds, item: Item) -> None:
        items = self._items.get(rounds)
        if items is None:
            self._items[rounds] = [item]
            heapq.heappush(self._times, rounds)
        else:
            items.append(item)

    def first(self) -> Rounds | None:
        return self._times[0] if self._times else None

    def take(self, rounds: Rounds) -> Iterable[Item]:
        """The items under the first time, which `rounds` must be, or none where that is later."""
        if not self._times or self._times[0] != rounds:
            return ()
        heapq.heappop(self._times)
        self._measured.pop(rounds, None)
        return self._items.pop(rounds)

    def nbytes(self, of: Callable[[Item], int]) -> int:
        """The bytes of all items. `of` gives the bytes of one item, and is called once for each."""
        total = 0
        for rounds, items in self._items.items():
            count, size = self._measured.get(rounds, (0, 0))
            if count < len(items):
                size += sum(map(of, items[count:]))
                self._measured[rounds] = len(items), size
            total += size
        return total

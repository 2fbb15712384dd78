"""A queue that gives every owner its turn, however many items other owners have put into it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar


class Owned(Protocol):
    """An item of the queue. Its owner is a `task` of a `principal`."""

    @property
    def principal(self) -> str: ...

    @property
    def task(self) -> str: ...


T = TypeVar("T", bound=Owned)


class FairQueue(Generic[T]):
    """Gives out items in turns of principals.

    A principal's items in turns of its tasks; a task's in order of arrival.
    """

    def __init__(self) -> None:
        self._principals: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        """All items, in no particular order."""
        for tasks in self._principals.values():
            for items in tasks.values():
                yield from items

    def has_other_than(self, principal: str) -> bool:
        """True if another principal has an item."""
        return any(other != principal for other in self._principals)

    def append(self, item: T) -> None:
        self._principals.setdefault(item.principal, OrderedDict()).setdefault(item.task, deque()).append(item)
        self._length += 1

    def popleft(self) -> T:
        """The next item. Its principal then goes behind all others, and its task behind the principal's other tasks."""
        return self._pop(next(iter(self._principals)))

    def next_of(self, may_have: Callable[[str], bool]) -> T | None:
        """The next item of the principals that may have one, as `popleft`; None if there is none."""
        principal = next(filter(may_have, self._principals), None)
        return None if principal is None else self._pop(principal)

    def _pop(self, principal: str) -> T:
        tasks = self._principals[principal]
        task, items = next(iter(tasks.items()))
        item = items.popleft()
        self._length -= 1
        tasks.move_to_end(task)
        self._principals.move_to_end(principal)
        self._tidy(item)
        return item

    def remove(self, item: T) -> None:
        self._principals[item.principal][item.task].remove(item)
        self._length -= 1
        self._tidy(item)

    def clear(self) -> None:
        self._principals.clear()
        self._length = 0

    def _tidy(self, item: T) -> None:
        """Forget the item's task and principal if they have no more items."""
        tasks = self._principals[item.principal]
        if not tasks[item.task]:
            del tasks[item.task]
        if not tasks:
            del self._principals[item.principal]

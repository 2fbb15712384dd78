"""The callbacks of those who wait for a task's output, in the order of the places that they wait at.

A service may have thousands of waiters at one task. A change calls only those for whom it is news: a waiter for a later
epoch costs the changes before that epoch nothing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from ...proto.values import Cursor

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A callback for output at a cursor. `number` tells listeners at one cursor apart."""

    cursor: Cursor
    number: int
    callback: Callable[[], None] = field(compare=False)


class Listeners:
    """All methods are called under the task's lock."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, cursor: Cursor, callback: Callable[[], None]) -> Listener:
        self._added += 1
        listener = Listener(cursor, self._added, callback)
        insort(self._listeners, listener)
        return listener

    def remove(self, listener: Listener) -> None:
        """Forget the listener. Harmless if it is not known."""
        at = bisect_left(self._listeners, listener)
        if self._listeners[at : at + 1] == [listener]:
            del self._listeners[at]

    def call(self, before: Cursor | None = None) -> None:
        """Call those that wait at a place before this one; without a place, all of them."""
        end = len(self._listeners)
        if before is not None:
            end = bisect_left(self._listeners, before, key=lambda listener: listener.cursor)
        for listener in self._listeners[:end]:
            try:
                listener.callback()
            except Exception:  # noqa: BLE001  # logged; the others go on
                _log.exception("a task's listener failed")

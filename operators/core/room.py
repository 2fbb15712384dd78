"""Room in memory: state that can lie in several ways asks before it is put together at the cost of memory.

The caller that keeps state within a bound answers for its thread, as it watches its thread (`interrupts`). Where nobody
answers there is room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

HasRoom: TypeAlias = Callable[[int], bool]
"""True where so many bytes are free beside the state."""

_SMALL: Final = 4 << 20
"""Nobody asks for less."""


class _Thread(threading.local):
    has_room: HasRoom | None = None


_thread = _Thread()


class answering:  # noqa: N801  # as `looking`
    """Answer on this thread for the work inside the context."""

    __slots__ = ("_answer", "_around")

    def __init__(self, answer: HasRoom | None) -> None:
        self._answer = answer

    def __enter__(self) -> None:
        self._around = _thread.has_room
        _thread.has_room = self._answer

    def __exit__(self, *exception: object) -> None:
        _thread.has_room = self._around


def has_room(size: int) -> bool:
    """True where so many bytes may be taken for a while, beside the state as it is counted now."""
    answer = _thread.has_room
    return answer is None or size <= _SMALL or answer(size)

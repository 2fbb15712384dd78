"""Room in memory: state that can lie in several ways asks before it is put together at the cost of memory.

The caller that keeps state within a bound answers for its thread, as it watches its thread (`interrupts`). Where nobody
answers there is room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

HasRoom: TypeAlias = Callable[[int], bool]
"""True where so many bytes are free beside the state."""


class Room(Protocol):
    """Answers for the state of a thread."""

    def has_room(self, size: int) -> bool:
        """True where so many bytes may be taken for a while, beside the state."""

    def need_room(self, size: int) -> None:
        """Raise the error of too large state, unless so many bytes may be taken."""


_SMALL: Final = 4 << 20
"""Nobody asks for less."""


class _Thread(threading.local):
    room: Room | None = None


_thread = _Thread()


class answering:  # noqa: N801  # as `looking`
    """Answer on this thread for the work inside the context."""

    __slots__ = ("_around", "_room")

    def __init__(self, room: Room | None) -> None:
        self._room = room

    def __enter__(self) -> None:
        self._around = _thread.room
        _thread.room = self._room

    def __exit__(self, *exception: object) -> None:
        _thread.room = self._around


def has_room(size: int) -> bool:
    """True where so many bytes may be taken for a while, beside the state as it is counted now."""
    room = _thread.room
    return room is None or size <= _SMALL or room.has_room(size)


def need_room(size: int) -> None:
    """Raise where there is no room for so many bytes, before they are taken."""
    room = _thread.room
    if room is not None and size > _SMALL:
        room.need_room(size)

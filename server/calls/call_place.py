"""The place of a call among the threads of a pool: the call gives it to others while it waits, and takes one again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from ...proto.errors import Unavailable

_LOOK_SECONDS: Final = 0.5
"""The seconds between two looks whether the pool is closed."""


class Pool(Protocol):
    """A pool, for one of its calls. Any thread may use it."""

    @property
    def closed(self) -> bool:
        """True if no more calls begin."""
        ...

    def leave(self) -> None:
        """Take the thread of the call out of the pool. It ends with the call."""
        ...

    def begin(self, hold: Callable[[], None], given_up: Callable[[], None]) -> None:
        """Call `hold` on a thread of the pool when it is the principal's turn. Call `given_up` if the pool is closed or
        the system has no thread for it: then the call goes on without a place.
        """
        ...


class CallPlace:
    """A call's place. The call has its pool's thread at first. Once it has left, it goes on with that thread, and
    another thread of the pool stands still for it: so the pool never runs more calls than it has threads.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._held: threading.Event | None = None
        """What ends the standing still of another thread."""
        self._is_away = False

    @contextmanager
    def given_away(self) -> Iterator[None]:
        """A context in which other calls have the place. Inside of another such context it changes nothing."""
        if self._is_away:
            yield
            return
        self._is_away = True
        if self._held is None:
            self._pool.leave()
        else:
            self._held.set()
        try:
            yield
        finally:
            self._is_away = False
            self._take()

    def _take(self) -> None:
        turn, held, has_place = threading.Event(), threading.Event(), threading.Event()

        def hold() -> None:
            has_place.set()
            turn.set()
            held.wait()

        self._held = held
        self._pool.begin(hold, turn.set)
        while not turn.wait(_LOOK_SECONDS) and not self._pool.closed:
            """The place is another call's."""
        if not has_place.is_set() and self._pool.closed:
            raise Unavailable("the server is about to end: call again when it is back")

    def end(self) -> None:
        """The call has ended: let its place go."""
        if self._held is not None:
            self._held.set()

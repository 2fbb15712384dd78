"""The place of a call among the threads of a pool: others have it while the call waits elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
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

    def turn(self) -> AbstractContextManager[None]:
        """The context of the call's work elsewhere, of which few calls of its principal are at once."""
        ...

    def offer(self) -> None:
        """Have calls that wait for a thread take the place, by `CallPlace.leave`."""
        ...

    def leave(self) -> None:
        """Take the thread of the call out of the pool. It ends with the call."""
        ...

    def begin(self, hold: Callable[[], None], given_up: Callable[[], None]) -> None:
        """Call `hold` on a thread of the pool when it is the principal's turn. Call `given_up` if the pool is closed or
        the system has no thread for it: then the call goes on without a place.
        """
        ...


class _State(Enum):
    HERE = 1
    ELSEWHERE = 2
    """The call waits elsewhere, and nobody has wanted its place yet."""
    LEFT = 3
    """Others have the place. The call will take one again."""
    GONE = 4
    """The call has ended, or will never want a place again."""


class CallPlace:
    """A call's place. The call has its pool's thread at first. Once it has left, it goes on with that thread, and
    another thread of the pool stands still for it: so the pool never runs more calls than it has threads.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._state = _State.HERE
        self._only_waits = False
        """True of a call elsewhere that does no work there."""
        self._held: threading.Event | None = None
        """What ends the standing still of another thread."""
        self._turn = threading.Event()
        """What ends the wait for a place."""

    @contextmanager
    def given_away(self, in_turn: bool) -> Iterator[None]:
        """A context in which other calls may have the place, and which may have to wait for its turn. Inside of another
        such context it changes nothing.
        """
        with self._lock:
            was_here = self._state is _State.HERE
            if was_here:
                self._state, self._only_waits = _State.ELSEWHERE, not in_turn
        if not was_here:
            yield
            return
        self._pool.offer()
        try:
            with self._pool.turn() if in_turn else nullcontext():
                yield
        finally:
            with self._lock:
                has_left = self._state is _State.LEFT
                if self._state is not _State.GONE:
                    self._state = _State.HERE
            if has_left:
                self._take()

    def leave(self, *, for_others: bool) -> bool:
        """Give the place to another call, if this one is elsewhere, and only waits there or leaves `for_others`. The
        pool calls this, on its loop.
        """
        with self._lock:
            if self._state is not _State.ELSEWHERE or not (for_others or self._only_waits):
                return False
            self._state = _State.LEFT
            held = self._held
        if held is None:
            self._pool.leave()
        else:
            held.set()
        return True

    def _take(self) -> None:
        turn, held, has_place = threading.Event(), threading.Event(), threading.Event()

        def hold() -> None:
            has_place.set()
            turn.set()
            held.wait()

        with self._lock:
            if self._state is _State.GONE:
                return
            self._held, self._turn = held, turn
        self._pool.begin(hold, turn.set)
        while not turn.wait(_LOOK_SECONDS) and not self._pool.closed:
            """The place is another call's."""
        if not has_place.is_set() and self._pool.closed:
            raise Unavailable("the server is about to end: call again when it is back")

    def end(self) -> None:
        """The call has ended, or goes on outside of the pool: let its place go."""
        with self._lock:
            self._state = _State.GONE
            held, turn = self._held, self._turn
        if held is not None:
            held.set()
            turn.set()

"""Limits on streams that each hold a thread, and their wait for results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted, Unavailable
from ...proto.values import Cursor, Frame
from ..calls.backend import Backend
from ..calls.long_polls import blocked, shutting_down

_LOOK_SECONDS: Final = 0.1  # between looks of a waiting stream whether its client is still there


def _threads(whose: str, most: int) -> InUse:
    """A count of the streams that hold a thread."""
    return InUse(
        most,
        lambda: Exhausted(
            f"{whose} {most} streams of Arrow Flight open, and the server takes no more (tidegate serve "
            "--flight-streams N): try again later, or read with Results or Next of tidegate.v1.TaskService",
            reason="FLIGHT_BUSY",
        ),
    )


class StreamThreads:
    """The threads of all streams together. The streams' threads call its methods.

    With `principals`, each of them has at most half of the threads.
    """

    def __init__(self, backend: Backend, most: int, streams: InUse, *, principals: bool) -> None:
        self._backend = backend
        self._streams = streams
        self._of_principal = _threads("you have", max(1, most // 2) if principals else most)
        self._of_all = _threads("this server has", most)
        self._lock = threading.Lock()
        self._waiters: set[threading.Event] = set()
        self.stopped = False

    def begin(self, principal: str) -> None:
        """Count a stream before it begins; `end` is called after it. Raises `Exhausted` if there are too many."""
        with ExitStack() as undo:
            for count, counted_for in self._counts(principal):
                count.take(counted_for)
                undo.callback(count.give, counted_for)
            undo.pop_all()

    def end(self, principal: str) -> None:
        for count, counted_for in self._counts(principal):
            count.give(counted_for)

    def _counts(self, principal: str) -> tuple[tuple[InUse, str], ...]:
        """The counts of a principal's stream, each with the name that the stream has in it."""
        return (self._streams, principal), (self._of_all, ""), (self._of_principal, principal)

    def frames(
        self, task: str, cursor: Cursor, *, max_bytes: int, wait: float, left: Callable[[], bool]
    ) -> Sequence[Frame]:
        """Frames from `cursor` on; waits up to `wait` seconds for a frame other than BLOCKED.

        Raises `Unavailable` once the client has `left`.
        """
        frames = self._backend.poll(task, cursor, max_bytes=max_bytes)
        if wait <= 0 or not blocked(frames):
            return frames
        deadline = time.monotonic() + wait
        changed = threading.Event()
        unsubscribe = self._backend.subscribe(task, cursor, changed.set)
        with self._lock:
            self._waiters.add(changed)
        try:
            while True:
                changed.clear()
                frames = self._backend.poll(task, cursor, max_bytes=max_bytes)
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not blocked(frames):
                    return frames
                if self.stopped:
                    raise shutting_down()
                if left():
                    raise Unavailable("the client has disconnected")
                changed.wait(min(remaining, _LOOK_SECONDS))
        finally:
            with self._lock:
                self._waiters.discard(changed)
            unsubscribe()

    def stop(self) -> None:
        """Send every waiter away, now and from now on."""
        with self._lock:
            self.stopped = True
            for waiter in self._waiters:
                waiter.set()

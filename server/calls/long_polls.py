"""Long polls: any number of clients wait for results, none of them in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar, cast

from ...proto.errors import Unavailable
from ...proto.values import Blocked, Cursor, Frame
from .answering import HungUp
from .backend import Backend
from .unread_answers import UnreadAnswers

M = TypeVar("M")


class Waiting:
    """Clients that wait. All methods are called on the event loop."""

    def __init__(self, backend: Backend, unread: UnreadAnswers) -> None:
        self._backend = backend
        self._unread = unread
        self._waiters: set[asyncio.Event] = set()
        self._listeners: set[asyncio.Task[Any]] = set()
        self._stopped = False

    async def frames(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None, max_bytes: int, wait: float
    ) -> Sequence[Frame]:
        """Frames from `cursor` on; waits up to `wait` seconds for a frame other than BLOCKED."""

        def poll(acknowledge: Cursor | None = None) -> Sequence[Frame]:
            return self._backend.poll(task, cursor, acknowledge=acknowledge, max_bytes=self._unread.room(max_bytes))

        frames = poll(acknowledge)
        if wait <= 0 or not blocked(frames):
            return frames
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        changed = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        unsubscribe = self._backend.subscribe(task, cursor, wake)
        self._waiters.add(changed)
        try:
            while True:
                changed.clear()
                frames = poll()
                if not blocked(frames):
                    return frames
                await self._change(changed, deadline - loop.time())
                if loop.time() >= deadline:
                    return poll()
        finally:
            self._waiters.discard(changed)
            unsubscribe()

    async def message(self, messages: AsyncIterator[M]) -> M | None:
        """A client's next message, or None after its last one. Ends the wait when the server ends."""
        if self._stopped:
            raise shutting_down()
        call = cast("asyncio.Task[Any]", asyncio.current_task())
        self._listeners.add(call)
        try:
            return await anext(messages, None)
        except asyncio.CancelledError:
            if self._stopped:
                raise shutting_down() from None
            raise HungUp from None
        finally:
            self._listeners.discard(call)

    async def pause(self, seconds: float) -> None:
        """Sleep. Ends when the server ends."""
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            await self._change(changed, seconds)
        finally:
            self._waiters.discard(changed)

    async def _change(self, changed: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            if not self._stopped:
                async with asyncio.timeout(seconds):
                    await changed.wait()
        if self._stopped:
            raise shutting_down()

    def stop(self) -> None:
        """Send every waiter away, now and from now on."""
        self._stopped = True
        for waiter in self._waiters:
            waiter.set()
        for listener in self._listeners:
            listener.cancel()


def shutting_down() -> Unavailable:
    """The error for waiters that are sent away."""
    return Unavailable("the server is shutting down")


def blocked(frames: Sequence[Frame]) -> bool:
    """True if the frames have no rows and no end yet."""
    return all(isinstance(frame, Blocked) for frame in frames)

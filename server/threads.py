"""Threads for calls that may take their time, so that the event loop never does."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")


class Threads:
    """Up to `most` of them, each started when there is a call for it. The next call is for the one that was the last to
    end one: what it needs is still in its core's caches.

    Belongs to the event loop: every method is called there, so that nothing here needs a lock.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._all: list[_Thread] = []
        self._idle: list[_Thread] = []
        self._calls: deque[_Call] = deque()

    async def call(self, function: Callable[[], R]) -> R:
        """What it returns or raises there, called for whom this context acts."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[R] = loop.create_future()
        call = _Call(function, contextvars.copy_context(), outcome)
        if self._idle:
            self._idle.pop().calls.put(call)
        elif len(self._all) < self._most:
            self._all.append(_Thread(f"{self._name}-{len(self._all) + 1}", loop, self._ended))
            self._all[-1].calls.put(call)
        else:
            self._calls.append(call)
        return await outcome

    def _ended(self, thread: _Thread, call: _Call, value: Any, error: BaseException | None) -> None:
        if not call.outcome.done():  # nobody waits for it any more if it was cancelled
            if error is None:
                call.outcome.set_result(value)
            else:
                call.outcome.set_exception(error)
        while self._calls:
            following = self._calls.popleft()
            if not following.outcome.done():
                thread.calls.put(following)
                return
        self._idle.append(thread)

    def close(self, *, wait: bool) -> None:
        """Begin no more calls and cancel those that have not begun. `wait` for the others where none wants the loop."""
        while self._calls:
            self._calls.popleft().outcome.cancel()
        for thread in self._all:
            thread.calls.put(None)
        for thread in self._all if wait else ():
            thread.join()


class _Call:
    __slots__ = ("context", "function", "outcome")

    def __init__(self, function: Callable[[], Any], context: contextvars.Context, outcome: asyncio.Future[Any]) -> None:
        self.function = function
        self.context = context
        self.outcome = outcome


class _Thread(threading.Thread):
    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[_Thread, _Call, Any, BaseException | None], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._loop = loop
        self._ended = ended
        self.start()

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            value, error = None, None
            try:
                value = call.context.run(call.function)
            except BaseException as raised:  # noqa: BLE001 - whoever waits for the call is told
                error = raised
            with suppress(RuntimeError):  # the loop has been closed, so nobody waits
                self._loop.call_soon_threadsafe(self._ended, self, call, value, error)
            del call, value, error  # while it waits for the next one, it holds nothing of the last one

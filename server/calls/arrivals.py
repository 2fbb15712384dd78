"""Bounds the requests of each principal that are slow to arrive, because gRPC keeps as much of a request as has come.

A request that comes at once is never counted. One that does not come in full within `SOON` may be large and stalled, or
a client may be idle: the server cannot tell one from the other.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import grpc.aio

from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted

_END: Final = cast("Any", grpc.aio).EOF  # its stubs lack it

SOON: Final = 0.25
SLOW_AT_ONCE: Final = 64
IDLE_FEEDS: Final = 64
"""The `Feed` calls of a principal that wait for their clients. The server ends those beyond them, and a client that has
a request then calls again."""


def slow_requests(most: int) -> InUse:
    """A count of each principal's calls whose request is slow to arrive."""
    return InUse(
        most,
        lambda: Exhausted(
            f"{most} of your requests are on their way, and this server waits for no more that are slow to arrive: "
            "wait for an answer first",
            reason="TOO_MANY_CALLS",
        ),
    )


class Requests:
    """The requests of a call, none of which is kept.

    gRPC's own iterator keeps the last request, and is in a cycle of references: requests of calls that had ended would
    stay in memory until Python's collector comes.
    """

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._context = context

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> Any:
        request = await self._context.read()
        if request is _END:
            raise StopAsyncIteration
        return request


class Arriving(Requests):
    """The requests of a principal's call. The call counts as `slow` while it waits for a request for long."""

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any], slow: InUse, principal: str) -> None:
        super().__init__(context)
        self._slow = slow
        self._principal = principal
        self._counted = False
        self._refusal: Exhausted | None = None

    async def __anext__(self) -> Any:
        """The next request. Raises `Exhausted` if it is slow to arrive, and too many others are."""
        try:
            async with asyncio.timeout(None) as patience:
                timer = asyncio.get_running_loop().call_later(SOON, self._is_slow, patience)
                try:
                    return await super().__anext__()
                finally:
                    timer.cancel()
        except TimeoutError:
            if self._refusal is None:
                raise
            raise self._refusal from None
        finally:
            if self._counted:
                self._counted = False
                self._slow.give(self._principal)

    def _is_slow(self, patience: asyncio.Timeout) -> None:
        try:
            self._slow.take(self._principal)
            self._counted = True
        except Exhausted as full:
            self._refusal = full
            patience.reschedule(asyncio.get_running_loop().time())

"""Bounds the calls of each principal, of any method, so that other principals can always call."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
import grpc.aio

from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted, TidegateError
from .answering import Context, abort, at_end
from .arrivals import IDLE_FEEDS, SLOW_AT_ONCE, Arriving, slow_requests

_FEED: Final = "/tidegate.v1.TaskService/Feed"

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class CallBounds:
    """Counts of each principal's calls in progress, and of those whose request is slow to arrive.

    All principals together have at most `max_calls`. The last quarter is for other principals.
    """

    def __init__(self, max_calls: int) -> None:
        self._calls = _calls(max(1, max_calls * 3 // 4))
        self._slow = slow_requests(SLOW_AT_ONCE)
        self._idle_feeds = slow_requests(IDLE_FEEDS)

    def bounded(self, handler: Handler, method: str, principal: str) -> Handler:
        """The handler, which counts its calls among those of the principal, and refuses them beyond the bounds."""
        slow = self._idle_feeds if method == _FEED else self._slow

        def requests_of(context: Context) -> Arriving:
            return Arriving(context, slow, principal)

        changed = {
            kind: self._counting(behaviour, requests_of, principal)
            for kind in ("stream_unary", "stream_stream")  # no method waits for its request before it is called
            if handler is not None and (behaviour := getattr(handler, kind)) is not None
        }
        return cast("Any", handler)._replace(**changed) if changed else handler

    def _counting(
        self, behaviour: Callable[..., Any], requests_of: Callable[[Context], Arriving], principal: str
    ) -> Callable[..., Any]:
        async def answer(_: object, context: Context) -> Any:
            await self._count(principal, context)
            return await behaviour(requests_of(context), context)

        async def answers(_: object, context: Context) -> AsyncIterator[Any]:
            await self._count(principal, context)
            try:
                async for message in behaviour(requests_of(context), context):
                    yield message
            except TidegateError as error:
                await abort(context, error)

        return answers if inspect.isasyncgenfunction(behaviour) else answer

    async def _count(self, principal: str, context: Context) -> None:
        """Count the call until its answer is sent, which the client may delay for as long as it likes."""
        try:
            self._calls.take(principal)
        except Exhausted as full:
            await abort(context, full)
        at_end(context, partial(self._calls.give, principal))


def _calls(most: int) -> InUse:
    return InUse(
        most,
        lambda: Exhausted(
            f"{most} of your calls are in progress, and this server takes no more (three quarters of --max-calls): "
            "wait for an answer first",
            reason="TOO_MANY_CALLS",
        ),
    )

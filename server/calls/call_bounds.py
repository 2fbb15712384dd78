"""Bounds the calls of each principal, of any method, so that other principals can always call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted
from .answering import Context
from .arrivals import IDLE_FEEDS, SLOW_AT_ONCE, Arriving, slow_requests
from .call_limit import beginning_with, count

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

        async def begin(_: object, context: Context) -> Arriving:
            await count(self._calls, principal, context)
            return Arriving(context, slow, principal)

        return beginning_with(handler, begin)


def _calls(most: int) -> InUse:
    return InUse(
        most,
        lambda: Exhausted(
            f"{most} of your calls are in progress, and this server takes no more (three quarters of --max-calls): "
            "wait for an answer first",
            reason="TOO_MANY_CALLS",
        ),
    )

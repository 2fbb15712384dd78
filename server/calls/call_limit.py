"""Counts calls from their beginning until their answers are sent, which clients may delay for as long as they like."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
import grpc.aio
from grpc_health.v1 import health

from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted, TidegateError
from .answering import Context, abort, at_end

HEALTH: Final = f"/{health.SERVICE_NAME}/"
"""Methods with this start are counted by the health service itself, so that probes are answered by a full server."""

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class CallLimit(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # it has arguments in its stubs alone
    """Refuses calls of any method beyond `max_calls` calls in progress. Refused calls do not count."""

    def __init__(self, max_calls: int) -> None:
        self._calls = InUse(
            max_calls,
            lambda: Exhausted(
                f"{max_calls} calls are in progress, and this server takes no more (tidegate serve --max-calls N): "
                "try again later",
                reason="TOO_MANY_CALLS",
            ),
        )

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], call: grpc.HandlerCallDetails
    ) -> Handler:
        handler = await continuation(call)
        return handler if call.method.startswith(HEALTH) else beginning_with(handler, self._begin)

    async def _begin(self, requests: Any, context: Context) -> Any:
        await count(self._calls, "", context)
        return requests


async def count(calls: InUse, principal: str, context: Context) -> None:
    """Count the call until its answer is sent. Ends the call if it is one too many."""
    try:
        calls.take(principal)
    except Exhausted as full:
        await abort(context, full)
    at_end(context, partial(calls.give, principal))


def beginning_with(handler: Handler, begin: Callable[[Any, Context], Awaitable[Any]]) -> Handler:
    """The handler, which first calls `begin`, and then reads the requests that `begin` has returned."""
    changed = {
        kind: _beginning_with(behaviour, begin)
        for kind in ("stream_unary", "stream_stream")  # no method waits for its request before it is called
        if handler is not None and (behaviour := getattr(handler, kind)) is not None
    }
    return cast("Any", handler)._replace(**changed) if changed else handler


def _beginning_with(
    behaviour: Callable[..., Any], begin: Callable[[Any, Context], Awaitable[Any]]
) -> Callable[..., Any]:
    async def answer(requests: Any, context: Context) -> Any:
        return await behaviour(await begin(requests, context), context)

    async def answers(requests: Any, context: Context) -> AsyncIterator[Any]:
        arriving = await begin(requests, context)
        try:
            async for message in behaviour(arriving, context):
                yield message
        except TidegateError as error:
            await abort(context, error)

    return answers if inspect.isasyncgenfunction(behaviour) else answer

"""Authentication by token: every call except those of the health service names its principal, and acts for it.

A principal has a limited number of calls in progress, of any method, so that other principals can always call.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
import grpc.aio
from grpc_health.v1 import health

from ...executor.api.ownership import act_for
from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted, Unauthenticated
from ..calls.answering import Context, abort
from .tokens import Tokens

HEADER: Final = "authorization"
SCHEME: Final = "Bearer"

_OPEN: Final = f"/{health.SERVICE_NAME}/"

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class Authenticating(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # it has arguments in its stubs alone
    """Checks the token of every call, of any method. The call then runs in the context that this interceptor sets.

    `calls` counts the calls of each principal.
    """

    def __init__(self, tokens: Tokens, calls: InUse) -> None:
        self._tokens = tokens
        self._calls = calls

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], call: grpc.HandlerCallDetails
    ) -> Handler:
        if call.method.startswith(_OPEN):
            return await continuation(call)
        try:
            metadata = call.invocation_metadata or ()
            name = principal(self._tokens, [str(value) for key, value in metadata if key == HEADER])
        except Unauthenticated as error:
            return _refusing(error)
        act_for(name)
        return _counting(await continuation(call), self._calls, name)


def principal(tokens: Tokens, values: Sequence[str]) -> str:
    """The principal of a call with these headers. Raises `Unauthenticated`."""
    if len(values) != 1:
        raise Unauthenticated(
            "the call has no token, and this server needs one: give a token (tidegate.connect(..., token_file=...), "
            f"--token-file, TIDEGATE_TOKEN_FILE), which is sent as `{HEADER}: {SCHEME} TOKEN`",
            reason="TOKEN_MISSING",
        )
    scheme, _, token = values[0].partition(" ")
    name = tokens.principal(token.strip()) if scheme.lower() == SCHEME.lower() else None
    if name is None:
        raise Unauthenticated(
            "this server does not know the token of the call; the server's owner gives out tokens (tidegate serve "
            "--tokens FILE)",
            reason="TOKEN_UNKNOWN",
        )
    return name


def _counting(handler: Handler, calls: InUse, name: str) -> Handler:
    """The handler, which counts its calls among those of the principal, and refuses them beyond its limit."""
    changed = {
        kind: _counting_calls(behaviour, calls, name)
        for kind in ("stream_unary", "stream_stream")  # no method of a server waits for its request before it is called
        if handler is not None and (behaviour := getattr(handler, kind)) is not None
    }
    return cast("Any", handler)._replace(**changed) if changed else handler


def _counting_calls(behaviour: Callable[..., Any], calls: InUse, name: str) -> Callable[..., Any]:
    async def answer(requests: Any, context: Context) -> Any:
        async with _counted(calls, name, context):
            return await behaviour(requests, context)

    async def answers(requests: Any, context: Context) -> AsyncIterator[Any]:
        async with _counted(calls, name, context):
            async for message in behaviour(requests, context):
                yield message

    return answers if inspect.isasyncgenfunction(behaviour) else answer


@asynccontextmanager
async def _counted(calls: InUse, name: str, context: Context) -> AsyncIterator[None]:
    try:
        calls.take(name)
    except Exhausted as full:
        await abort(context, full)
    try:
        yield
    finally:
        calls.give(name)


def _refusing(error: Unauthenticated) -> Handler:
    """A handler that refuses a call of any method, and reads nothing of its request."""

    async def refuse(_: Any, context: Context) -> None:
        await abort(context, error)

    return grpc.stream_stream_rpc_method_handler(refuse)

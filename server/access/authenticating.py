"""Authentication by token: every call except those of the health service names its principal, and acts for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from ...executor.api.ownership import act_for
from ...proto.errors import Unauthenticated
from ..calls.answering import Context, abort
from ..calls.call_bounds import CallBounds
from ..calls.call_limit import HEALTH
from .tokens import Tokens

HEADER: Final = "authorization"
SCHEME: Final = "Bearer"

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]


class Authenticating(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # it has arguments in its stubs alone
    """Checks the token of every call, of any method. The call then runs in the context that this interceptor sets."""

    def __init__(self, tokens: Tokens, bounds: CallBounds) -> None:
        self._tokens = tokens
        self._bounds = bounds

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], call: grpc.HandlerCallDetails
    ) -> Handler:
        if call.method.startswith(HEALTH):
            return await continuation(call)
        try:
            metadata = call.invocation_metadata or ()
            name = principal(self._tokens, [str(value) for key, value in metadata if key == HEADER])
        except Unauthenticated as error:
            return _refusing(error)
        act_for(name)
        return self._bounds.bounded(await continuation(call), call.method, name)


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


def _refusing(error: Unauthenticated) -> Handler:
    """A handler that refuses a call of any method, and reads nothing of its request."""

    async def refuse(_: Any, context: Context) -> None:
        await abort(context, error)

    return grpc.stream_stream_rpc_method_handler(refuse)

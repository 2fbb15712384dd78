"""The standard health service, for every caller that reaches the server: it takes no token, and tells little.

Its calls are answered as streams, which is the same on the wire. The server can thus count a call before it reads any
of the request, and gRPC holds no more of a request than a connection's window until the call's turn to read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2

from ...proto.errors import Exhausted, InvalidRequest, NotFound
from ..calls.answering import Context, refusing
from ..calls.request_reading import unreadable

NAME: Final = health.SERVICE_NAME
SERVING: Final = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN: Final = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

CALLS_OF_A_PEER: Final = 16
CALLS: Final = 512
LONGEST_REQUEST: Final = 1024
_REQUEST: Final = health_pb2.HealthCheckRequest.DESCRIPTOR.full_name
_READS: Final = 4
_REQUEST_SECONDS: Final = 1.0


class Health:
    """Says of each service whether it is served. All methods are called on the event loop."""

    def __init__(self) -> None:
        self._statuses: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._calls: Counter[str] = Counter()
        self._reads = asyncio.Semaphore(_READS)

    def serve(self, *services: str) -> None:
        """Report these services as served."""
        self._set(dict.fromkeys(services, SERVING))

    def stop(self) -> None:
        """Report all services as not served, and tell watching clients."""
        self._set(dict.fromkeys(self._statuses, NOT_SERVING))

    def _set(self, statuses: dict[str, int]) -> None:
        self._statuses.update(statuses)
        self._changed.set()
        self._changed = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        methods = {"Check": self._check, "Watch": self._watch}
        return grpc.method_handlers_generic_handler(
            NAME, {name: grpc.stream_stream_rpc_method_handler(method) for name, method in methods.items()}
        )

    async def _check(self, requests: AsyncIterator[bytes], context: Context) -> None:
        async with refusing(context):
            with self._counted(context):
                service = await self._service(requests)
                if service not in self._statuses:
                    raise NotFound(f"there is no service {service!r} on this server", reason="UNKNOWN_SERVICE")
                await context.write(_answer(self._statuses[service]))

    async def _watch(self, requests: AsyncIterator[bytes], context: Context) -> None:
        async with refusing(context):
            with self._counted(context):
                service = await self._service(requests)
                said: int | None = None
                while True:
                    changed = self._changed
                    status = self._statuses.get(service, UNKNOWN)
                    if status != said:
                        said = status
                        await context.write(_answer(status))
                    await changed.wait()

    @contextmanager
    def _counted(self, context: Context) -> Iterator[None]:
        peer = peer_of(context.peer())
        if self._calls[peer] >= CALLS_OF_A_PEER or self._calls.total() >= CALLS:
            raise Exhausted(
                f"the health service has too many calls; at most {CALLS_OF_A_PEER} of one address are allowed at the "
                f"same time, and {CALLS} in all: try again later",
                reason="HEALTH_BUSY",
            )
        self._calls[peer] += 1
        try:
            yield
        finally:
            self._calls[peer] -= 1
            if not self._calls[peer]:
                del self._calls[peer]

    async def _service(self, requests: AsyncIterator[bytes]) -> str:
        async with self._reads:
            try:
                data = await asyncio.wait_for(anext(requests, b""), _REQUEST_SECONDS)
            except TimeoutError:
                raise InvalidRequest(
                    f"the request did not arrive within {_REQUEST_SECONDS:g} s", reason="REQUEST_TOO_SLOW"
                ) from None
        if len(data) > LONGEST_REQUEST:
            raise Exhausted(
                f"the request is too large; at most {LONGEST_REQUEST} bytes are allowed", reason="REQUEST_TOO_LARGE"
            )
        try:
            return str(health_pb2.HealthCheckRequest.FromString(data).service)
        except DecodeError as error:
            raise unreadable(data, _REQUEST) from error


def peer_of(peer: str) -> str:
    """The calling machine, from `ipv4:HOST:PORT` and the like. All callers at a Unix socket count as one machine."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


def _answer(status: int) -> bytes:
    return bytes(health_pb2.HealthCheckResponse(status=status).SerializeToString())

"""A gRPC server over a backend: starts, reports its address, ends cleanly."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import grpc.aio

from ..executor.runtime.ceilings import InUse
from ..proto.encoding.flight_messages import SERVICE as FLIGHT
from ..proto.errors import Exhausted, Unavailable
from .access.authenticating import Authenticating
from .access.connections import ended_or_cut
from .access.doorkeeper import Doorkeeper, most_connections
from .access.socket_paths import check_socket_path
from .calls.answering import Endpoint, called
from .calls.backend import Backend
from .calls.call_bounds import CallBounds
from .calls.call_limit import CallLimit
from .calls.long_polls import Waiting, shutting_down
from .calls.request_reading import MARGIN, Reading
from .calls.unread_answers import UnreadAnswers
from .endpoints.flight_port import FlightPort
from .endpoints.health_service import NAME, Health
from .endpoints.plan_service import Plans
from .endpoints.reflection_service import NAME as REFLECTION
from .endpoints.reflection_service import reflection_handler
from .endpoints.task_service import Tasks
from .setup.pools import Pools
from .setup.settings import Settings
from .setup.trust import warning

log = logging.getLogger("tidegate.server")

LARGEST_AT_ONCE: Final = 8
"""The number of a principal's messages of the largest size that the server may keep, of requests and of answers."""
#: Beyond so many calls that wait to be begun, gRPC ends more and more of the next ones with CANCELLED.
_LEAST_WAITING: Final = 4_096
_CANCELLED_SECONDS: Final = 0.5  # for calls that are cancelled after their grace, before their connections are cut
_PLANNED_SECONDS: Final = 2.0  # for plans that are being read: that cannot be stopped
_LEFT_SECONDS: Final = 1.5  # for threads of calls that have been answered, or given up

_PING_SECONDS: Final = 60.0  # of silence, until a connection is asked whether it is alive
_PONG_SECONDS: Final = 20.0  # until a connection that does not answer is ended
_IDLE_SECONDS: Final = 1_800.0  # until a connection without calls is ended


def _options() -> tuple[tuple[str, int], ...]:
    """Options of gRPC that no setting changes."""
    return (
        ("grpc.so_reuseport", 0),  # a port in use is an error, not a lottery between two servers
        ("grpc.http2.max_frame_size", 1 << 20),
        ("grpc.keepalive_time_ms", int(1e3 * _PING_SECONDS)),
        ("grpc.keepalive_timeout_ms", int(1e3 * _PONG_SECONDS)),
        ("grpc.http2.ping_timeout_ms", int(1e3 * _PONG_SECONDS)),  # a minute without it, whatever keepalive's own is
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.max_connection_idle_ms", int(1e3 * _IDLE_SECONDS)),
        # A few bytes of gzip unpack to the largest request: gRPC unpacks none, and the server refuses what is packed.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", 0b101),  # identity and gzip: deflate looks like a message
    )


class Server:
    """A server as an async context manager: inside it listens at `address`, and has Flight at `flight_address`."""

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self._settings = settings
        self._backend = backend
        self._pools = Pools(settings)
        unread = UnreadAnswers(self._most_bytes)
        self._waiting = Waiting(backend, unread)
        streams = InUse(settings.streams_per_principal, self._too_many_streams)
        self._flight = FlightPort(backend, settings, streams)
        reading = Reading(self._pools.reading, settings.max_message_bytes, self._in_progress())
        self._endpoints: tuple[Endpoint, ...] = (
            Tasks(backend, self._pools, self._waiting, settings, streams, reading, unread),
            Plans(backend, self._pools, settings, self._flight, reading, unread),
        )
        self._health = Health()
        self.address = settings.listen
        self.left_threads = False
        """True if a call's thread goes on although the server has ended."""

    @property
    def _most_bytes(self) -> int:
        """The most bytes of a principal's requests without an answer, and of its answers that are not read."""
        return LARGEST_AT_ONCE * self._settings.max_message_bytes if self._settings.tokens is not None else sys.maxsize

    def _in_progress(self) -> InUse:
        """The bytes of each principal's requests that have no answer yet."""
        most = self._most_bytes
        return InUse(
            most,
            lambda: Exhausted(
                f"your requests in progress have {most:,} bytes, and this server takes no more ({LARGEST_AT_ONCE} "
                "times --max-message-bytes): wait for an answer first",
                reason="TOO_MANY_CALLS",
            ),
        )

    def _too_many_streams(self) -> Exhausted:
        return Exhausted(
            f"{self._settings.streams_per_principal} of your calls wait for results, return results or feed, and "
            "this server takes no more (tidegate serve --streams-per-principal N): end a call first",
            reason="TOO_MANY_STREAMS",
        )

    @property
    def flight_address(self) -> str:
        """The address of Arrow Flight; empty if there is no Flight."""
        return self._flight.address

    async def __aenter__(self) -> Self:
        limit = self._settings.max_message_bytes
        sizes = (("grpc.max_receive_message_length", limit + MARGIN), ("grpc.max_send_message_length", limit))
        waiting = max(self._settings.max_calls, _LEAST_WAITING)
        not_begun = (
            ("grpc.server.max_pending_requests", waiting),
            ("grpc.server.max_pending_requests_hard_limit", 2 * waiting),
        )
        tokens = self._settings.tokens
        most = self._settings.max_calls
        known = () if tokens is None else (Authenticating(tokens, CallBounds(most)),)
        self._server = grpc.aio.server(
            interceptors=(*known, CallLimit(most)), options=(*_options(), *sizes, *not_begun)
        )
        shown = reflection_handler(*(endpoint.name for endpoint in self._endpoints), NAME, REFLECTION)
        handlers = (*(endpoint.handler() for endpoint in self._endpoints), self._health.handler(), shown)
        self._server.add_generic_rpc_handlers(handlers)
        self.address = self._listen()
        self._flight.start(self.address)
        await self._server.start()
        addresses = [self.address, self.flight_address] if self.flight_address else [self.address]
        doorkeeper = Doorkeeper(*addresses, of_peer=self._settings.connections_per_peer, most=most_connections())
        self._door = asyncio.create_task(doorkeeper.watch(self._pools.control))
        if (said := warning(self._settings, addresses)) is not None:
            log.warning(said)
        names = [FLIGHT] if self.flight_address else []
        self._health.serve("", *names, *(endpoint.name for endpoint in self._endpoints))
        return self

    def _listen(self) -> str:
        listen, certificate = self._settings.listen, self._settings.certificate
        check_socket_path(listen)
        self._flight.check(listen)
        try:
            if certificate is None:
                port = self._server.add_insecure_port(listen)
            else:
                port = self._server.add_secure_port(listen, certificate.credentials())
        except RuntimeError as error:
            raise Unavailable(
                f"cannot listen on {listen}: the port is in use, or the address belongs to another machine",
                reason="CANNOT_LISTEN",
            ) from error
        return listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._health.stop()
        self._door.cancel()
        await asyncio.gather(self._door, return_exceptions=True)
        for endpoint in self._endpoints:
            endpoint.ending = True
        self._waiting.stop()
        grace = self._settings.grace_seconds
        await called(self._pools.control, self._backend.stop)
        giving_up = asyncio.get_running_loop().call_later(
            min(_PLANNED_SECONDS, grace), self._pools.planning.give_up, shutting_down()
        )
        await asyncio.gather(
            ended_or_cut(self._server.stop(grace), self.address, grace + _CANCELLED_SECONDS), self._flight.stop(grace)
        )
        giving_up.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEFT_SECONDS):
                for endpoint in self._endpoints:
                    await endpoint.stop()
        self.left_threads = not self._pools.close(_LEFT_SECONDS)
        if self.left_threads:
            log.error(
                "a call has not ended although its task is cancelled: the server ends without waiting for the "
                "call's thread"
            )


async def serve(backend: Backend, settings: Settings, ready: Callable[[Server], None]) -> bool:
    """Serve until SIGTERM or SIGINT. Calls `ready` with the listening server. False if threads of calls go on."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with Server(backend, settings) as server:
        ready(server)
        await ended.wait()
        log.info("shutting down")
    return not server.left_threads

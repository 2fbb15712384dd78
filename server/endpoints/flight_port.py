"""The Arrow Flight server of a server: starts it, renews its certificate, and ends it in bounded time."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...executor.runtime.ceilings import InUse
from ...proto.address import UNIX, is_loopback, placeless
from ...proto.errors import InvalidRequest, Unavailable
from ..access.certificate import Certificate
from ..access.connections import ended_or_cut
from ..access.socket_paths import check_socket_path
from ..calls.backend import Backend
from ..setup.settings import Settings
from .stream_threads import StreamThreads

if TYPE_CHECKING:
    from .flight_service import FlightServer

log = logging.getLogger("tidegate.server")

_LOOK_SECONDS: Final = 1.0  # between looks at the certificate's files
_AGAIN_SECONDS: Final = 0.05  # until a port that is about to be left is tried again
_SOCKET: Final = ".flight"  # behind the name of the server's own socket


class FlightPort:
    """The Flight server. `address` is where it listens; empty without Flight."""

    def __init__(self, backend: Backend, settings: Settings, streams: InUse) -> None:
        self._backend = backend
        self._settings = settings
        self._threads = StreamThreads(backend, settings.flight_streams, streams, principals=settings.tokens is not None)
        self._server: FlightServer | None = None
        self._version: tuple[int, ...] = ()
        self._ending: list[asyncio.Event] = []
        self._renewing: asyncio.Task[None] | None = None
        self.address = ""

    @property
    def announced(self) -> str:
        """The address for clients that reach the server by names of their own."""
        return placeless(self.address) if self.address else ""

    def check(self, server: str) -> None:
        """Raise `Unavailable` if Flight's socket, beside that of a server at the address `server`, cannot be made."""
        listen = _beside(server) if self._settings.flight_listen is None else self._settings.flight_listen
        if self._settings.flight and not self._why_not(listen):
            check_socket_path(listen)

    def start(self, server: str) -> None:
        """Start beside a server that listens at the address `server`.

        Raises `Unavailable` if the port cannot be used.
        """
        if self._settings.flight_listen is None and not is_loopback(server):
            log.info("there is no Arrow Flight on %s unless --flight-listen asks for it", server)
            return
        listen = _beside(server) if self._settings.flight_listen is None else self._settings.flight_listen
        if why_not := self._why_not(listen):
            log.warning(
                "there is no Arrow Flight, so clients read large results over gRPC, which is slower: %s", why_not
            )
        elif self._settings.flight:
            self.address = listen
            self._serve()
            if (certificate := self._settings.certificate) is not None:
                self._renewing = asyncio.get_running_loop().create_task(self._renew(certificate))

    def _why_not(self, listen: str) -> str:
        """The reason why there is no Flight, although the settings want it."""
        if not self._settings.flight:
            return ""
        if listen.startswith(UNIX) and self._settings.certificate is not None:
            return "Arrow Flight has no TLS on a Unix socket"
        try:
            import pyarrow.flight  # noqa: F401
        except ImportError:
            return "this build of pyarrow has no pyarrow.flight"
        return ""

    def _serve(self) -> None:
        from .flight_service import FlightServer

        certificate = self._settings.certificate
        shown = None
        if certificate is not None:
            self._version = certificate.version()
            shown = certificate.read()
        try:
            self._server = FlightServer(
                _location(self.address, tls=shown is not None),
                self._backend,
                self._threads,
                tokens=self._settings.tokens,
                certificate=shown,
            )
        except pa.ArrowException as error:
            raise Unavailable(
                f"cannot listen on {self.address} for Arrow Flight: the port is in use, or the address belongs to "
                "another machine",
                reason="CANNOT_LISTEN",
            ) from error
        if not self.address.startswith(UNIX):
            self.address = f"{self.address.rpartition(':')[0]}:{self._server.port}"

    async def _renew(self, certificate: Certificate) -> None:
        """Replace the server at its port for a renewed certificate: a Flight server keeps its first one."""
        said = ""
        while True:
            await asyncio.sleep(_AGAIN_SECONDS if self._server is None else _LOOK_SECONDS)
            try:
                if self._server is not None and certificate.version() == self._version:
                    continue
                certificate.read()
                self._end()
                self._serve()
                log.info("Arrow Flight uses the new certificate")
            except InvalidRequest as error:
                if said != (said := str(error)):
                    log.error("Arrow Flight keeps the previous certificate: %s", error)
            except Unavailable as error:  # the previous server has not left the port yet
                log.info("%s", error)

    def _end(self) -> None:
        """Stop listening. Open streams go on."""
        server, self._server = self._server, None
        if server is None:
            return
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            try:
                server.__exit__(None, None, None)
            finally:
                with suppress(RuntimeError):  # the loop has not waited for it
                    loop.call_soon_threadsafe(ended.set)

        self._ending.append(ended)
        threading.Thread(target=end, name="tidegate-flight-end", daemon=True).start()

    async def stop(self, grace: float) -> None:
        """Give flowing streams `grace` seconds to end, then cut the connections of the others, whose readers stall."""
        self._threads.stop()
        if self._renewing is not None:
            self._renewing.cancel()
        self._end()
        await ended_or_cut(asyncio.gather(*(event.wait() for event in self._ending)), self.address, grace)


def _beside(server: str) -> str:
    if server.startswith(UNIX):
        return UNIX + os.path.abspath(server.removeprefix(UNIX)) + _SOCKET
    return f"{server.rpartition(':')[0]}:0"


def _location(address: str, *, tls: bool) -> str:
    if address.startswith(UNIX):
        return f"grpc+unix://{address.removeprefix(UNIX)}"
    return f"grpc+{'tls' if tls else 'tcp'}://{address}"

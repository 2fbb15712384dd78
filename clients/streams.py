"""Two ways to read a stream of results: over Arrow Flight, and over gRPC where that cannot be had.

Both are the same frames from the same port. Flight's client is C++ and hands on the bytes that came from the network;
gRPC's for Python copies them twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import pyarrow as pa

from .access import Access
from .channel import OPTIONS, Answers, Channel
from .proto.flight import read_frame, ticket_bytes
from .proto.frames import decode_frames
from .proto.tidegate.v1 import tasks_pb2 as pb
from .proto.values import Frame

if TYPE_CHECKING:
    from pyarrow import flight

log = logging.getLogger("tidegate.client")

RESULTS: Final = "/tidegate.v1.TaskService/Results"
ATTEMPTS: Final = 3  # of opening a stream over Flight in a row, while gRPC gets through in between


class BrokenError(Exception):
    """A stream that ended before its end; what it had sent is good. Asking for what follows says why."""


class Frames(Protocol):
    """A stream's frames, as they come; raises `BrokenError`."""

    def __iter__(self) -> Iterator[Sequence[Frame]]: ...
    def __next__(self) -> Sequence[Frame]: ...
    def cancel(self) -> None: ...


class Streams:
    """Streams of results from a server. `way` is how they come, and why not over Flight if they do not."""

    def __init__(self, channel: Channel, *, use_flight: bool = True) -> None:
        self._channel = channel
        self._authorities = channel.access.authorities_bytes()  # now, as the channel does
        self._client: flight.FlightClient | None = None
        self._options: flight.FlightCallOptions | None = None
        self._why_not = "" if use_flight else "as was asked for"
        self._failed = 0

    @property
    def way(self) -> str:
        return f"gRPC: {self._why_not}" if self._why_not else "Flight"

    def open(self, request: pb.ResultsRequest, schema: pa.Schema) -> Frames:
        """Starts now; fails, if it does, when it is read."""
        return self._over_flight(request) or GrpcFrames(self._channel.stream(RESULTS, request), schema)

    def _over_flight(self, request: pb.ResultsRequest) -> Frames | None:
        if self._why_not:
            return None
        try:
            from pyarrow import flight
        except ImportError:
            self._do_without("this build of pyarrow has no pyarrow.flight")
            return None
        try:
            reader = self._connected(flight).do_get(
                flight.Ticket(ticket_bytes(pb.FlightTicket(results=request))), self._options
            )
        except NotImplementedError:
            self._do_without("the server is of a version without Arrow Flight")
        except pa.ArrowException as broken:
            self._failed += 1
            if self._failed >= ATTEMPTS:
                self._do_without(f"Arrow Flight does not get through ({broken})")
        else:
            self._failed = 0
            return FlightFrames(reader)
        return None

    def _connected(self, flight: ModuleType) -> flight.FlightClient:
        """Not before it is needed: a connection of its own."""
        if self._client is None:
            access = self._channel.access
            headers = [(name.encode(), value.encode()) for name, value in self._channel.metadata or ()]
            self._options = flight.FlightCallOptions(headers=headers)
            self._client = flight.connect(
                _location(access), generic_options=list(OPTIONS), tls_root_certs=self._authorities
            )
        return self._client

    def _do_without(self, why: str) -> None:
        self._why_not = why
        log.warning("%s: large results are read over gRPC, which is slower", why)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _location(access: Access) -> str:
    kind, separator, path = access.address.partition("unix:")
    if separator and not kind:
        return f"grpc+unix://{path}"
    return f"grpc+{'tls' if access.tls else 'tcp'}://{access.address}"


class GrpcFrames:
    """Answers of `Results`."""

    def __init__(self, answers: Answers, schema: pa.Schema) -> None:
        self._answers = answers
        self._schema = schema

    def __iter__(self) -> Iterator[Sequence[Frame]]:
        return self

    def __next__(self) -> Sequence[Frame]:
        try:
            return decode_frames(next(self._answers), self._schema)
        except grpc.RpcError as broken:
            raise BrokenError from broken

    def cancel(self) -> None:
        self._answers.cancel()


class FlightFrames:
    """Answers of `DoGet`."""

    def __init__(self, reader: flight.FlightStreamReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Sequence[Frame]]:
        return self

    def __next__(self) -> Sequence[Frame]:
        try:
            chunk = self._reader.read_chunk()
        except pa.ArrowException as broken:
            raise BrokenError from broken
        return (read_frame(chunk.data, chunk.app_metadata.to_pybytes()),)

    def cancel(self) -> None:
        self._reader.cancel()

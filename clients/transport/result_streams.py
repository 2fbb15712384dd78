"""The two transports of a stream of results: Arrow Flight, and gRPC if Flight is not available.

Both give the same frames. Flight is C++ on both sides and passes on the bytes from the network; gRPC for Python copies
them on both sides.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import pyarrow as pa

from ..proto.address import UNIX, beside
from ..proto.encoding import plan_answers
from ..proto.encoding.flight_messages import read_frame, results_ticket
from ..proto.encoding.frames import decode_frames
from ..proto.errors import TidegateError
from ..proto.tidegate.v1 import plans_pb2 as plans
from ..proto.tidegate.v1 import tasks_pb2 as pb
from ..proto.tls import trouble
from ..proto.values import Capabilities, Frame
from .channel import OPTIONS, Answers, Channel

if TYPE_CHECKING:
    from pyarrow import flight

log = logging.getLogger("tidegate.client")

RESULTS: Final = "/tidegate.v1.TaskService/Results"
CAPABILITIES: Final = "/tidegate.v1.PlanService/Capabilities"
BUSY: Final = b"FLIGHT_BUSY"  # the reason of a refused stream, while others are served
ATTEMPTS: Final = 3  # to open a stream over Flight in a row, while gRPC gets through in between
CONNECT_SECONDS: Final = 3.0


class BrokenError(Exception):
    """A stream that broke before its end. The frames before are valid. Asking for the next ones says why it broke."""


class Frames(Protocol):
    """A stream's frames, as they come. Raises `BrokenError`."""

    def __iter__(self) -> Iterator[Sequence[Frame]]: ...
    def __next__(self) -> Sequence[Frame]: ...
    def cancel(self) -> None: ...


class Streams:
    """Streams of results from a server. `way` is their transport, with the reason if it is not Flight."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._flight = FlightConnection(channel)
        self._why_not = "" if channel.access.flight else "the client asked for gRPC"
        self._failed = 0
        self._busy = False

    @property
    def way(self) -> str:
        return f"gRPC: {self._why_not}" if self._why_not else "Flight"

    def open(self, request: pb.ResultsRequest, schema: pa.Schema) -> Frames:
        """Start a stream now. If it fails, reading it raises the error."""
        return self._over_flight(request) or GrpcFrames(self._channel.stream(RESULTS, request), schema)

    def _over_flight(self, request: pb.ResultsRequest) -> Frames | None:
        if self._why_not:
            return None
        try:
            frames = self._flight.open(request)
        except NoFlightError as never:
            self._do_without(str(never))
        except (TidegateError, pa.ArrowException) as broken:
            if getattr(broken, "extra_info", b"") == BUSY:
                self._say_busy()
            else:
                self._failed += 1
                self._flight.close()
                if self._failed >= ATTEMPTS:
                    self._do_without(f"Arrow Flight does not work on the way to the server ({_first_line(broken)})")
        else:
            self._failed = 0
            return frames
        return None

    def _say_busy(self) -> None:
        if not self._busy:
            self._busy = True
            log.warning("the server has its most streams of Arrow Flight open: %s", _SLOWER)

    def _do_without(self, why: str) -> None:
        self._why_not = why
        self._flight.close()
        log.warning("%s: %s", why, _SLOWER)

    def close(self) -> None:
        self._flight.close()


_FLIGHT_OPTIONS: Final = (
    ("grpc.min_reconnect_backoff_ms", int(1000 * CONNECT_SECONDS)),  # how long an attempt to connect may take
    ("grpc.keepalive_time_ms", 310_000),  # Flight's server ends connections that ask more often than every 5 minutes
)

_SLOWER: Final = "large results are read over gRPC, which is slower"


class NoFlightError(Exception):
    """Flight is not available, and retrying would not help."""


class FlightConnection:
    """The connection to the server's Flight address, made when it is needed, and again after `close`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._client: flight.FlightClient | None = None
        self._was_there = False

    def open(self, request: pb.ResultsRequest) -> FlightFrames:
        """Open a stream. Raises `NoFlightError`, or the error of the attempt."""
        try:
            from pyarrow import flight
        except ImportError:
            raise NoFlightError("this build of pyarrow has no pyarrow.flight") from None
        if self._client is None:
            self._client = self._connected(request.task)
        options = flight.FlightCallOptions(headers=self._headers())
        return FlightFrames(self._client.do_get(flight.Ticket(results_ticket(request)), options))

    def _connected(self, task: str) -> flight.FlightClient:
        """A client whose connection has answered a call about the task.

        A stream of unknown length can have no deadline.
        """
        from pyarrow import flight

        access, address = self._channel.access, self._address()
        in_time = flight.FlightCallOptions(headers=self._headers(), timeout=CONNECT_SECONDS)
        client = flight.connect(
            _location(address, tls=access.tls),
            generic_options=[*OPTIONS, *_FLIGHT_OPTIONS],
            tls_root_certs=self._channel.authorities,
        )
        try:
            client.get_flight_info(flight.FlightDescriptor.for_path(task, "1"), in_time)
        except (flight.FlightUnavailableError, flight.FlightTimedOutError) as unreachable:
            client.close()
            if self._was_there:
                raise
            problem = trouble(address, tls=access.tls, authorities=self._channel.authorities, file=access.authorities)
            why = _first_line(unreachable) if problem is None else problem.sentence
            raise NoFlightError(f"the server's Arrow Flight cannot be reached at {address} ({why})") from None
        except BaseException:
            client.close()
            raise
        self._was_there = True
        return client

    def _headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the next call. The channel may have a new token."""
        return [(name.encode(), value.encode()) for name, value in self._channel.metadata or ()]

    def _address(self) -> str:
        answer = self._channel.call(CAPABILITIES, plans.CapabilitiesRequest(), _capabilities, again=False)
        if not answer.flight:
            raise NoFlightError("the server has no Arrow Flight")
        reached = self._channel.access.address
        address = beside(reached, answer.flight)
        if address is None:
            raise NoFlightError(
                f"the server's Arrow Flight is at {answer.flight}, and the client cannot find its host: it reached "
                f"the server at {reached}"
            )
        return address

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _capabilities(answer: bytes) -> Capabilities:
    return plan_answers.capabilities_value(plans.CapabilitiesResponse.FromString(answer))


def _location(address: str, *, tls: bool) -> str:
    if address.startswith(UNIX):
        return f"grpc+unix://{os.path.abspath(address.removeprefix(UNIX))}"
    return f"grpc+{'tls' if tls else 'tcp'}://{address}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


class GrpcFrames:
    """The frames of `Results`."""

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
    """The frames of `DoGet`."""

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

"""Arrow Flight: a task's results for any Flight client, and for Tidegate's client if they are large.

`DoGet` has the semantics of `Results`, whose frames it sends; a ticket of one epoch gives just its rows. Other methods
of Flight are for services of other kinds, and are refused with a message. The server is pyarrow's, in C++: each stream
has a thread of it, in which Python finds the next batch and C++ sends it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyarrow import flight

from ...executor.api.ownership import act_for, acts_for
from ...proto.arrow.without_rows import no_rows
from ...proto.encoding import flight_messages as tickets
from ...proto.encoding.error_status import EPOCH, ERROR, REASON, failure
from ...proto.errors import EpochError, InvalidRequest, Refused, Unauthenticated
from ...proto.tidegate.v1 import tasks_pb2 as pb
from ...proto.values import Barrier, Data, ErrorValue, Finished, Frame
from ..access.authenticating import HEADER, principal
from ..access.tokens import Tokens
from ..calls.answering import client_vanished, tellable
from ..calls.backend import Backend
from .results import UNCOPIED_BYTES, Following
from .stream_threads import StreamThreads

_CALL: Final = "tidegate"  # the name of each call's middleware
_TRAILERS: Final = (ERROR, REASON, EPOCH)

# Flight has these statuses. All others become its "failed", with the reason beside it. (Python exceptions have more,
# but pyarrow would send their traceback to the client.)
_ERRORS: Final = {
    "UNAUTHENTICATED": flight.FlightUnauthenticatedError,
    "PERMISSION_DENIED": flight.FlightUnauthorizedError,
    "RESOURCE_EXHAUSTED": flight.FlightUnavailableError,
    "UNAVAILABLE": flight.FlightUnavailableError,
    "INTERNAL": flight.FlightInternalError,
}


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """A Flight server. It listens from its creation until its context ends."""

    def __init__(
        self,
        location: str,
        backend: Backend,
        threads: StreamThreads,
        *,
        tokens: Tokens | None,
        certificate: tuple[bytes, bytes] | None,
    ) -> None:
        self._backend = backend
        self._threads = threads
        shown = [] if certificate is None else [(certificate[1], certificate[0])]
        super().__init__(location, tls_certificates=shown, middleware={_CALL: _Calls(tokens, threads)})

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        with _refusing(context):
            call = context.get_middleware(_CALL)
            wanted = tickets.read_ticket(ticket.ticket)
            schema = self._schema(call, wanted.results.task or wanted.task)
            call.take_stream(wanted.results.task or wanted.task)
            return flight.GeneratorStream(schema, self._batches(context, call, wanted, schema))

    def _batches(
        self, context: flight.ServerCallContext, call: _Call, wanted: pb.FlightTicket, schema: pa.Schema
    ) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        nothing = no_rows(schema)
        frames = self._results if wanted.HasField("results") else self._epoch
        try:
            with _refusing(context):
                for some in frames(context, call, wanted):
                    for frame in some:
                        yield from tickets.frame_batches(frame, nothing)
        except flight.FlightError:
            call.has_ended = not context.is_cancelled()
            raise
        call.has_ended = True

    def _results(
        self, context: flight.ServerCallContext, call: _Call, wanted: pb.FlightTicket
    ) -> Iterator[Sequence[Frame]]:
        """The frames of a `Results` stream."""
        following = Following(wanted.results, UNCOPIED_BYTES)
        while not following.ended:
            frames = call.context.run(
                self._threads.frames,
                following.task,
                following.cursor,
                max_bytes=following.max_bytes,
                wait=following.wait,
                left=context.is_cancelled,
            )
            yield following.take(frames)

    def _epoch(
        self, context: flight.ServerCallContext, call: _Call, wanted: pb.FlightTicket
    ) -> Iterator[Sequence[Frame]]:
        """The rows of one epoch."""
        request = pb.FlightTicket(results=pb.ResultsRequest(task=wanted.task))
        getattr(request.results, "from").epoch = wanted.epoch
        for frames in self._results(context, call, request):
            yield [frame for frame in frames if isinstance(frame, Data) and frame.cursor.epoch == wanted.epoch]
            if _ended(frames, wanted.epoch):
                return

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """The epoch's rows as one endpoint, at this same server. The number of rows is not known."""
        with _refusing(context):
            task, epoch = tickets.read_path(descriptor.path)
            schema = self._schema(context.get_middleware(_CALL), task)
            endpoint = flight.FlightEndpoint(tickets.epoch_ticket(task, epoch), [])
            return flight.FlightInfo(schema, descriptor, [endpoint], ordered=True)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        try:
            task, _epoch = tickets.read_path(descriptor.path)
            return flight.SchemaResult(self._schema(context.get_middleware(_CALL), task))
        except Exception as error:  # noqa: BLE001 (told to the client, and logged if it is a bug)
            raise _refusal(context, error) from None

    def _schema(self, call: _Call, task: str) -> pa.Schema:
        return call.context.run(self._backend.get_task, task).schema

    def _not_served(self, context: flight.ServerCallContext, *_: object) -> None:
        with _refusing(context):
            raise InvalidRequest(
                "Tidegate serves results over Arrow Flight, with DoGet, GetFlightInfo and GetSchema; for everything "
                "else, call tidegate.v1.TaskService at the server's gRPC address",
                reason="NOT_SERVED",
            )

    list_flights = do_put = do_exchange = list_actions = do_action = _not_served


# pyarrow sends this method's errors with their traceback, which must not show where the code is.
FlightServer.get_schema.__code__ = FlightServer.get_schema.__code__.replace(co_filename="tidegate")


def _ended(frames: Sequence[Frame], epoch: int) -> bool:
    """True once an epoch's rows have been sent. Raises if they never will be."""
    for frame in frames:
        match frame:
            case Barrier(error=None):
                return True
            case Barrier(error=ErrorValue() as error):
                raise EpochError(error.message, epoch=epoch, reason=error.reason)
            case Finished():
                raise Refused(f"the task has finished: there is no epoch {epoch}", reason="TASK_FINISHED")
            case _:
                pass
    return False


class _Call(flight.ServerMiddleware):  # type: ignore[misc]
    """One call. `context` acts for its caller. A stream that the call has counted ends with the call."""

    def __init__(self, threads: StreamThreads) -> None:
        self.context = contextvars.copy_context()
        self._threads = threads
        self._task: str | None = None
        self.has_ended = False
        """True once its stream has been sent to its end, or its client knows why not."""

    def take_stream(self, task: str) -> None:
        self._threads.begin(self.context.run(acts_for))
        self._task = task

    def call_completed(self, exception: Exception | None) -> None:  # noqa: ARG002 (of Flight)
        if self._task is None:
            return
        self._threads.end(self.context.run(acts_for))
        if not (self.has_ended or self._threads.stopped):
            self.context.run(client_vanished, "DoGet", self._task)


class _Calls(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Makes the middleware of a call, after checking its token if the server has tokens."""

    def __init__(self, tokens: Tokens | None, threads: StreamThreads) -> None:
        self._tokens = tokens
        self._threads = threads

    def start_call(self, _info: flight.CallInfo, headers: Mapping[str, Sequence[str]]) -> _Call:
        call = _Call(self._threads)
        if self._tokens is not None:
            try:
                call.context.run(act_for, principal(self._tokens, headers.get(HEADER, ())))
            except Unauthenticated as error:
                raise flight.FlightUnauthenticatedError(error.message, error.reason.encode()) from None
        return call


@contextmanager
def _refusing(context: flight.ServerCallContext) -> Iterator[None]:
    """A context that turns errors into Flight's."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (told to the client, and logged if it is a bug)
        raise _refusal(context, error) from None


def _refusal(context: flight.ServerCallContext, error: Exception) -> flight.FlightError:
    """The error as Flight's, with its reason as `extra_info` and with the trailers that gRPC's calls have."""
    answer = tellable(error)
    said = failure(answer)
    for name, value in said.metadata:
        if name in _TRAILERS:
            context.add_trailer(name, value)
    return _ERRORS.get(said.status, flight.FlightServerError)(said.sentence, answer.reason.encode())

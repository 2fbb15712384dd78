"""Arrow Flight on the server's own port: a task's results for any Flight client, and for ours where they are many.

`DoGet` has the semantics of `Results`, whose frames it sends; a ticket of one epoch gives just its rows. What Flight
has besides is for services of other kinds, and is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

import grpc
import pyarrow as pa

from ..proto import flight
from ..proto.errors import EpochError, Refused, TaskCancelled, TaskFailed
from ..proto.tidegate.v1 import tasks_pb2 as pb
from ..proto.values import Barrier, Data, ErrorValue, Finished, Frame
from .answering import Context, Endpoint, single, streaming
from .backend import Backend
from .results import results
from .threads import Threads
from .waiting import Waiting

_OTHERS: Final = ("ListFlights", "PollFlightInfo", "ListActions", "DoAction", "Handshake", "DoPut", "DoExchange")
_READS_ONLY: Final = (
    "Tidegate serves results over Arrow Flight, with DoGet, GetFlightInfo and GetSchema; everything else is asked of "
    "tidegate.v1.TaskService on the same port"
)


class Flight(Endpoint):
    name = flight.SERVICE

    def __init__(self, backend: Backend, threads: Threads, waiting: Waiting) -> None:
        super().__init__(threads)
        self._backend = backend
        self._waiting = waiting

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        methods = {
            "DoGet": grpc.unary_stream_rpc_method_handler(streaming(self.do_get)),
            "GetFlightInfo": grpc.unary_unary_rpc_method_handler(single(self.get_flight_info)),
            "GetSchema": grpc.unary_unary_rpc_method_handler(single(self.get_schema)),
        }
        # A method that streams both ways takes clients of all kinds.
        methods |= dict.fromkeys(_OTHERS, grpc.stream_stream_rpc_method_handler(_unimplemented))
        return grpc.method_handlers_generic_handler(self.name, methods)

    async def do_get(self, request: bytes, _: Context) -> AsyncGenerator[bytes]:
        ticket = flight.read_ticket(request)
        frames = results(self._waiting, ticket.results) if ticket.HasField("results") else self._epoch(ticket)
        yield flight.schema_data(await self._schema(ticket.results.task or ticket.task))
        encoder = flight.FlightEncoder()
        async with aclosing(frames):
            async for some in frames:
                for frame in some:
                    for message in encoder.encode(frame):
                        yield message

    async def _epoch(self, ticket: pb.FlightTicket) -> AsyncGenerator[Sequence[Frame]]:
        """The rows of one epoch."""
        request = pb.ResultsRequest(task=ticket.task)
        getattr(request, "from").epoch = ticket.epoch
        async with aclosing(_told(results(self._waiting, request))) as answers:
            async for frames in answers:
                yield [frame for frame in frames if isinstance(frame, Data) and frame.cursor.epoch == ticket.epoch]
                if _ended(frames, ticket.epoch):
                    return

    async def get_flight_info(self, descriptor: bytes, _: Context) -> bytes:
        task, epoch = flight.read_descriptor(descriptor)
        return flight.flight_info(await self._schema(task), descriptor, task, epoch)

    async def get_schema(self, descriptor: bytes, _: Context) -> bytes:
        task, _epoch = flight.read_descriptor(descriptor)
        return flight.schema_result(await self._schema(task))

    async def _schema(self, task: str) -> pa.Schema:
        return (await self.blocking(self._backend.get_task, task)).schema


def _ended(frames: Sequence[Frame], epoch: int) -> bool:
    """Whether an epoch's rows have been sent; raises where they never will be."""
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


async def _told(answers: AsyncGenerator[Sequence[Frame]]) -> AsyncGenerator[Sequence[Frame]]:
    """A cancelled task is another status here: pyarrow takes CANCELLED for a Ctrl-C of its own user."""
    async with aclosing(answers):
        try:
            async for frames in answers:
                yield frames
        except TaskCancelled as cancelled:
            raise TaskFailed(cancelled.message, reason=cancelled.reason) from cancelled


async def _unimplemented(_requests: AsyncIterator[bytes], context: Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, _READS_ONLY)

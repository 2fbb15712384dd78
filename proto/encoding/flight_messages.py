"""Tickets of an Arrow Flight `DoGet`, and frames in its answers.

Flight sends batches; each batch carries what Tidegate says of it as `app_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError

from ..errors import InvalidRequest
from ..tidegate.v1 import tasks_pb2 as pb
from ..values import Cursor, Data, Frame
from . import messages
from .number_ranges import LARGEST, check_request

SERVICE: Final = "arrow.flight.protocol.FlightService"

_LONGEST_TICKET: Final = 65_536
_HOW: Final = 'give {"task": "...", "epoch": 1}, or a tidegate.v1.FlightTicket'


def results_ticket(request: pb.ResultsRequest) -> bytes:
    """The ticket for the answer to a `Results` request."""
    return bytes(pb.FlightTicket(results=request).SerializeToString())


def epoch_ticket(task: str, epoch: int) -> bytes:
    """The ticket of an epoch's rows, for people to read."""
    return MessageToJson(pb.FlightTicket(task=task, epoch=epoch), indent=None).encode()


def read_ticket(ticket: bytes) -> pb.FlightTicket:
    if len(ticket) > _LONGEST_TICKET:
        raise InvalidRequest(f"this is not a ticket of Tidegate ({len(ticket):,} bytes): {_HOW}", reason="BAD_TICKET")
    try:
        # JSON begins with a brace. No message of Tidegate can: a brace would be a group of field 15.
        message = Parse(ticket, pb.FlightTicket()) if ticket[:1] == b"{" else pb.FlightTicket.FromString(ticket)
    except (DecodeError, ParseError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"this is not a ticket of Tidegate ({error}): {_HOW}", reason="BAD_TICKET") from error
    check_request(message)
    if message.HasField("results") == (bool(message.task) and message.epoch > 0):
        raise InvalidRequest(
            f"a ticket must have either a task and an epoch, or `results`: {_HOW}", reason="BAD_TICKET"
        )
    return message


def read_path(path: Sequence[bytes] | None) -> tuple[str, int]:
    """The task and the epoch that a descriptor's path names. A descriptor without a path is of another kind."""
    try:
        task, epoch = (part.decode() for part in path or ())
        if 0 < int(epoch) <= LARGEST:
            return task, int(epoch)
    except ValueError:
        pass
    raise InvalidRequest(
        "a flight's descriptor must be a path: a task's id, and an epoch's number", reason="BAD_DESCRIPTOR"
    )


def frame_batches(frame: Frame, nothing: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    """A frame as batches, each with its metadata; a frame without rows goes with `nothing`."""
    if isinstance(frame, Data):
        row = frame.cursor.row
        for batch in frame.batches:
            data = pb.Data(epoch=frame.cursor.epoch, row=row, rows=batch.num_rows, run=frame.cursor.run)
            yield batch, pb.Frame(data=data).SerializeToString()
            row += batch.num_rows
    else:
        yield nothing, messages.frame_message(frame).SerializeToString()


def read_frame(batch: pa.RecordBatch, metadata: bytes) -> Frame:
    """The frame that `frame_batches` encoded."""
    frame = pb.Frame.FromString(metadata)
    if frame.HasField("data"):
        cursor = Cursor(frame.data.epoch, frame.data.row, frame.data.run)
        return Data(cursor=cursor, rows=batch.num_rows, batches=(batch,))
    return messages.frame_value(frame)

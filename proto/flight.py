"""Arrow Flight's messages for results: what `DoGet`, `GetFlightInfo` and `GetSchema` are asked and answer.

They are written by hand, as their bytes: the generated code of Flight's own .proto file would copy every batch, and
would quarrel with another copy of itself in the same process. The numbers of the fields are those of Flight.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError

from . import messages
from .arrow_ipc import BatchPieces, schema_bytes
from .errors import InvalidRequest
from .tidegate.v1 import tasks_pb2 as pb
from .values import Cursor, Data, Frame
from .wire import fields, varint

SERVICE: Final = "arrow.flight.protocol.FlightService"

_PATH: Final = 1  # FlightDescriptor.type
_HEADER, _METADATA, _BODY = b"\x12", b"\x1a", b"\xc2\x3e"  # FlightData.data_header, app_metadata, data_body
_BODY_WIDTH: Final = 5  # of its length
_PREFIX: Final = 8  # bytes before the metadata of an IPC message: a mark, and how long it is
_ALIGNMENT: Final = 8
_HOW: Final = 'a ticket is {"task": "...", "epoch": 1}, or a tidegate.v1.FlightTicket'


def ticket_bytes(ticket: pb.FlightTicket) -> bytes:
    return bytes(ticket.SerializeToString())


def read_ticket(data: bytes) -> pb.FlightTicket:
    """What a Flight `Ticket` message asks for."""
    ticket = b"".join(_bytes_of(data, 1))
    try:
        # JSON begins with a brace, which no message of ours can: it would be a group of field 15.
        found = Parse(ticket, pb.FlightTicket()) if ticket[:1] == b"{" else pb.FlightTicket.FromString(ticket)
    except (DecodeError, ParseError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"not a ticket of Tidegate ({error}): {_HOW}", reason="BAD_TICKET") from error
    if found.HasField("results") == (bool(found.task) and found.epoch > 0):
        raise InvalidRequest(f"a ticket names a task and an epoch, or has `results`: {_HOW}", reason="BAD_TICKET")
    return found


def read_descriptor(data: bytes) -> tuple[str, int]:
    """The task and the epoch of a `FlightDescriptor`, whose path they are."""
    try:
        kind = next((value for number, value in _fields(data) if number == 1), 0)
        task, epoch = (each.decode() for each in _bytes_of(data, 3))
        if kind == _PATH:
            return task, int(epoch)
    except ValueError:
        pass
    raise InvalidRequest("a flight's descriptor is a path: a task's id, and an epoch's number", reason="BAD_DESCRIPTOR")


def flight_info(schema: pa.Schema, descriptor: bytes, task: str, epoch: int) -> bytes:
    """A `FlightInfo` with one endpoint, at this same server, for the epoch's rows; how many is not known."""
    ticket = MessageToJson(pb.FlightTicket(task=task, epoch=epoch), indent=None).encode()
    endpoint = _bytes(1, _bytes(1, ticket))
    unknown = varint((1 << 64) - 1)  # -1
    counts = b"\x20" + unknown + b"\x28" + unknown
    return _bytes(1, schema_bytes(schema)) + _bytes(2, descriptor) + _bytes(3, endpoint) + counts + b"\x30\x01"


def schema_result(schema: pa.Schema) -> bytes:
    """A `SchemaResult`."""
    return _bytes(1, schema_bytes(schema))


def schema_data(schema: pa.Schema) -> bytes:
    """The `FlightData` that every stream begins with."""
    return _bytes(2, schema_bytes(schema)[_PREFIX:])


class FlightEncoder:
    """The frames of one stream, as `FlightData` messages."""

    def __init__(self) -> None:
        self._pieces = BatchPieces()

    def encode(self, frame: Frame) -> Iterator[bytes]:
        """One message for each batch, or for a frame without any."""
        if isinstance(frame, Data):
            row = frame.cursor.row
            for batch in frame.batches:
                yield self._data(frame.cursor.epoch, row, batch)
                row += batch.num_rows
        else:
            yield _bytes(3, messages.frame_message(frame).SerializeToString())

    def _data(self, epoch: int, row: int, batch: pa.RecordBatch) -> bytes:
        """Its body lies on an 8-byte boundary: the length of what stands first is as long as that takes."""
        place = pb.Frame(data=pb.Data(epoch=epoch, row=row, rows=batch.num_rows)).SerializeToString()
        header, body = _split(self._pieces.of(batch))
        head = place + _HEADER + varint(len(header)) + header + _BODY + varint(sum(map(len, body)), _BODY_WIDTH)
        width = len(varint(len(place)))
        length = varint(len(place), width + -(len(_METADATA) + width + len(head)) % _ALIGNMENT)
        return b"".join((_METADATA, length, head, *body))


def _split(pieces: Sequence[bytes | pa.Buffer]) -> tuple[bytes, Sequence[bytes | pa.Buffer]]:
    """An IPC message's metadata and body; pyarrow writes what stands before the body in pieces of their own."""
    start, count = b"", 0
    end = _PREFIX
    while len(start) < end:
        start += bytes(pieces[count])
        count += 1
        if len(start) == _PREFIX:
            end += int.from_bytes(start[4:], "little")
    return start[_PREFIX:], pieces[count:]


def read_frame(batch: pa.RecordBatch | None, metadata: bytes) -> Frame:
    """A frame from what a stream's answer has of it."""
    frame = pb.Frame.FromString(metadata)
    if batch is None:
        return messages.frame_value(frame)
    return Data(cursor=Cursor(frame.data.epoch, frame.data.row), rows=batch.num_rows, batches=(batch,))


def _bytes(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def _bytes_of(data: bytes, wanted: int) -> list[bytes]:
    """A field's values that are bytes, in order."""
    return [bytes(value) for number, value in _fields(data) if number == wanted and isinstance(value, memoryview)]


def _fields(data: bytes) -> Iterator[tuple[int, int | memoryview]]:
    try:
        yield from fields(memoryview(data))
    except ValueError as error:
        raise InvalidRequest(f"not a message of Arrow Flight: {error}", reason="MALFORMED_REQUEST") from error

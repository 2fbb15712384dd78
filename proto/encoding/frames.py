"""`NextResponse` to bytes and back, without protobuf objects, which would copy the batches.

The bytes are exactly a `NextResponse`: any protobuf runtime reads and writes them. Batches lie on 8-byte boundaries
(varints may be longer than they need be), so batches that are read in place are aligned as Arrow wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from ..arrow.arrow_ipc import BatchPieces, read_batch
from ..errors import InternalError
from ..tidegate.v1 import tasks_pb2 as pb
from ..values import Barrier as BarrierFrame
from ..values import Blocked, Cursor, Data, Finished, Frame
from . import messages
from .wire_format import WIDEST, fields, varint

M = TypeVar("M", bound=Message)
Pieces = Callable[[pa.RecordBatch], Sequence[bytes | pa.Buffer]]  # of a record batch message

_FRAME, _DATA = b"\x0a", b"\x0a"  # NextResponse.frames, Frame.data
_READ = b"\x1a"  # AddSplitsResponse.read
_EPOCH, _ROW, _ROWS, _BATCHES, _RUN = b"\x08", b"\x10", b"\x18", b"\x22", b"\x28"
_LENGTH_WIDTH = 5  # of the two enclosing lengths, so that padding does not change where it pads to
_SMALL = 32_768  # an answer of so few bytes is copied sooner than it is taken apart here
_ALIGNMENT = 8


def encode_frames(frames: Sequence[Frame]) -> bytes:
    """A `NextResponse` with these frames; a `Data` of several batches becomes one of one batch each."""
    return b"".join(_parts(frames, 0, _whole))


class FramesEncoder:
    """`encode_frames` for the many answers of a stream: the same bytes, with one copy less of the batches."""

    def __init__(self) -> None:
        self._pieces = BatchPieces()

    def encode(self, frames: Sequence[Frame]) -> bytes:
        return b"".join(_parts(frames, 0, self._pieces.of))


def encode_added(answer: pb.AddSplitsResponse, frames: Sequence[Frame]) -> bytes:
    """An `AddSplitsResponse` that has read these frames."""
    head = answer.SerializeToString() + _READ
    parts = _parts(frames, len(head) + _LENGTH_WIDTH, _whole)
    return b"".join((head, _length(sum(map(len, parts))), *parts))


def _whole(batch: pa.RecordBatch) -> tuple[pa.Buffer]:
    return (batch.serialize(),)


def _parts(frames: Sequence[Frame], size: int, pieces: Pieces) -> list[bytes | pa.Buffer]:
    """The pieces of a `NextResponse` that starts at byte `size`."""
    parts: list[bytes | pa.Buffer] = []
    for frame in frames:
        for part in _data_parts(frame, size, pieces) if isinstance(frame, Data) else _other_parts(frame):
            parts.append(part)
            size += len(part)
    return parts


def _other_parts(frame: Blocked | BarrierFrame | Finished) -> tuple[bytes, bytes]:
    body = messages.frame_message(frame).SerializeToString()
    return _FRAME + varint(len(body)), body


def _data_parts(frame: Data, size: int, pieces: Pieces) -> Iterator[bytes | pa.Buffer]:
    row, run = frame.cursor.row, frame.cursor.run
    epoch_run = _EPOCH + varint(frame.cursor.epoch) + (_RUN + varint(run) if run else b"")
    for batch in frame.batches:
        payload = pieces(batch)
        payload_size = sum(map(len, payload))
        head = _data_head(epoch_run, row, batch.num_rows, payload_size, size)
        size += len(head) + payload_size
        row += batch.num_rows
        yield head
        yield from payload


def _data_head(epoch_run: bytes, row: int, rows: int, payload: int, position: int) -> bytes:
    """The bytes before a batch; `position` is where the batch's head starts in the message."""
    batch_field = _BATCHES + varint(payload)
    row_width, rows_width = len(varint(row)), len(varint(rows))
    fixed = len(_FRAME) + len(_DATA) + 2 * _LENGTH_WIDTH + len(epoch_run) + len(_ROW) + len(_ROWS) + len(batch_field)
    padding = -(position + fixed + row_width + rows_width) % _ALIGNMENT
    row_padding = min(padding, WIDEST - row_width)
    numbers = _ROW + varint(row, row_width + row_padding)
    numbers += _ROWS + varint(rows, rows_width + padding - row_padding)
    data_length = len(epoch_run) + len(numbers) + len(batch_field) + payload
    frame_length = len(_DATA) + _LENGTH_WIDTH + data_length
    lengths = _FRAME + _length(frame_length) + _DATA + _length(data_length)
    return lengths + epoch_run + numbers + batch_field


def _length(value: int) -> bytes:
    """A varint of `_LENGTH_WIDTH` bytes."""
    low, high = value | 0x80, value >> 7 | 0x80
    return bytes((low & 0xFF, high & 0xFF, value >> 14 & 0x7F | 0x80, value >> 21 & 0x7F | 0x80, value >> 28))


def decode_read(data: bytes, schema: pa.Schema) -> list[Frame]:
    """The frames that an `AddSplitsResponse` has read."""
    if len(data) <= _SMALL:
        return _decode_small(_message(pb.AddSplitsResponse, data).read, schema)
    for number, value in _fields(memoryview(data)):
        if number == 3 and isinstance(value, memoryview):
            return decode_frames(value, schema)
    raise _malformed()


def decode_frames(data: bytes | memoryview, schema: pa.Schema) -> list[Frame]:
    """The frames of a `NextResponse`; the batches of a large one point into `data`."""
    if len(data) <= _SMALL:
        return _decode_small(_message(pb.NextResponse, data), schema)
    view = memoryview(data)
    frames: list[Frame] = []
    for number, value in _fields(view):
        if number == 1 and isinstance(value, memoryview):
            frames.extend(_decode_frame(value, schema))
    return frames


def _message(kind: type[M], data: bytes | memoryview) -> M:
    try:
        return kind.FromString(bytes(data))
    except DecodeError as error:
        raise _malformed() from error


def _decode_small(answer: pb.NextResponse, schema: pa.Schema) -> list[Frame]:
    return [
        _small_data(frame.data, schema) if frame.HasField("data") else messages.frame_value(frame)
        for frame in answer.frames
    ]


def _small_data(data: pb.Data, schema: pa.Schema) -> Data:
    batches = tuple(read_batch(batch, schema) for batch in data.batches)
    return Data(cursor=Cursor(data.epoch, data.row, data.run), rows=data.rows, batches=batches)


def _decode_frame(view: memoryview, schema: pa.Schema) -> Iterator[Frame]:
    for number, value in _fields(view):
        if number == 1 and isinstance(value, memoryview):
            yield _decode_data(value, schema)
            return
    yield messages.frame_value(pb.Frame.FromString(bytes(view)))


def _decode_data(view: memoryview, schema: pa.Schema) -> Data:
    numbers = {1: 0, 2: 0, 3: 0, 5: 0}
    batches: list[pa.RecordBatch] = []
    for number, value in _fields(view):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 4:
            batches.append(read_batch(value, schema))
    return Data(cursor=Cursor(numbers[1], numbers[2], numbers[5]), rows=numbers[3], batches=tuple(batches))


def _fields(view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    try:
        yield from fields(view)
    except ValueError as error:
        raise _malformed() from error


def _malformed() -> InternalError:
    return InternalError("the server's answer is not a NextResponse message", reason="MALFORMED_ANSWER")

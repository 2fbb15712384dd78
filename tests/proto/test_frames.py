"""`NextResponse` bytes: what any protobuf runtime reads and writes, without copies of the batches."""

from dataclasses import replace

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.encoding import messages
from tidegate.proto.encoding.frames import FramesEncoder, decode_frames, encode_frames
from tidegate.proto.errors import InternalError
from tidegate.proto.statistics import EpochStatistics
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import (
    Barrier,
    Blocked,
    BlockedState,
    Cursor,
    Data,
    ErrorValue,
    Finished,
    Frame,
)

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows), pa.int64()), pa.array(["ä" * (i % 7) for i in range(rows)])], SCHEMA)


def data(epoch: int, row: int, *sizes: int, run: int = 0) -> Data:
    return Data(cursor=Cursor(epoch, row, run), rows=sum(sizes), batches=tuple(map(batch, sizes)))


numbers = st.integers(0, 2**63 - 1)
LARGE = 4_000  # rows that make an answer too large to be read with a copy
sizes = st.integers(0, 50)
data_frame = st.builds(data, numbers, numbers, sizes, sizes | st.just(LARGE), run=st.sampled_from((0, 1)) | numbers)
frame = st.one_of(
    data_frame,
    st.builds(
        Blocked,
        state=st.sampled_from(BlockedState),
        missing=st.dictionaries(st.text(max_size=5), st.lists(numbers, max_size=4).map(tuple), max_size=2),
    ),
    st.builds(
        Barrier,
        epoch=numbers,
        rows=numbers,
        watermark=st.none() | st.integers(-(2**63), 2**63 - 1),
        statistics=st.builds(EpochStatistics, splits=numbers, run_us=numbers),
        error=st.none() | st.builds(ErrorValue, reason=st.text(max_size=5), message=st.text(max_size=5)),
    ),
    st.builds(Finished),
)


def described(frames: list[Frame]) -> list[object]:
    """Frames as comparable values, with one batch per DATA as the wire has it."""
    out: list[object] = []
    for answer_frame in frames:
        if isinstance(answer_frame, Data):
            row = answer_frame.cursor.row
            for part in answer_frame.batches:
                cursor = answer_frame.cursor
                out.append((cursor.epoch, row, cursor.run, part.num_rows, part.to_pylist()))
                row += part.num_rows
        else:
            out.append(answer_frame)
    return out


def stock(frames: list[Frame]) -> Message:
    """The same message as protobuf's own classes build it."""
    single = [
        Data(
            cursor=replace(frame.cursor, row=frame.cursor.row + sum(b.num_rows for b in frame.batches[:i])),
            rows=b.num_rows,
            batches=(b,),
        )
        for frame in frames
        if isinstance(frame, Data)
        for i, b in enumerate(frame.batches)
    ]
    return pb.NextResponse(frames=[messages.frame_message(answer_frame) for answer_frame in single])


@given(st.lists(frame, max_size=4))
def test_frames_survive_the_wire(frames: list[Frame]) -> None:
    assert described(decode_frames(encode_frames(frames), SCHEMA)) == described(frames)


@given(st.lists(st.lists(frame, max_size=4), max_size=3))
def test_an_answer_of_a_stream_has_the_bytes_of_a_single_one(answers: list[list[Frame]]) -> None:
    encoder = FramesEncoder()
    assert [encoder.encode(frames) for frames in answers] == [encode_frames(frames) for frames in answers]


@given(st.lists(data_frame, max_size=3))
def test_stock_protobuf_reads_what_we_write(frames: list[Frame]) -> None:
    assert pb.NextResponse.FromString(encode_frames(frames)) == stock(frames)


@given(st.lists(frame, max_size=3))
def test_we_read_what_stock_protobuf_writes(frames: list[Frame]) -> None:
    message = pb.NextResponse(frames=[messages.frame_message(frame) for frame in frames])
    assert described(decode_frames(message.SerializeToString(), SCHEMA)) == described(frames)


some_rows = st.integers(1, 50)


@given(st.lists(st.builds(data, numbers, numbers, some_rows, some_rows, run=numbers), min_size=1, max_size=4))
def test_buffers_of_a_large_answer_are_aligned_and_not_copied(frames: list[Data]) -> None:
    encoded = encode_frames([*frames, data(1, 0, LARGE)])
    start = pa.py_buffer(encoded).address
    buffers = [
        buffer
        for frame in decode_frames(encoded, SCHEMA)
        for b in frame.batches
        for column in b.columns
        for buffer in column.buffers()
        if buffer
    ]
    assert all(buffer.address % 8 == 0 for buffer in buffers)
    assert all(start <= buffer.address <= start + len(encoded) for buffer in buffers)


def test_a_sliced_batch_travels_without_the_rest_of_it() -> None:
    part = batch(100_000).slice(50_000, 10)
    assert len(encode_frames([Data(cursor=Cursor(1, 0), rows=10, batches=(part,))])) < 1_000


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\xff", b"\x0b", b"\xff" * 20])
def test_an_answer_that_is_no_message_is_an_error(data: bytes) -> None:
    with pytest.raises(InternalError, match="not a NextResponse"):
        decode_frames(data, SCHEMA)


def test_a_large_answer_cut_short_is_an_error() -> None:
    with pytest.raises(InternalError, match="not a NextResponse"):
        decode_frames(encode_frames([data(1, 0, LARGE)])[:-1], SCHEMA)

"""Flight's messages as pyarrow and protobuf's own reader see them."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from tidegate.proto import flight as messages
from tidegate.proto.errors import InvalidRequest
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import Cursor, Data, Finished
from tidegate.proto.wire import fields, varint

TYPES = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.text(max_size=5)),
    "list": (pa.list_(pa.bool_()), st.lists(st.booleans(), max_size=3)),
    "null": (pa.null(), st.none()),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Rows of some columns, as a slice of more."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    count = draw(st.integers(1, 20))
    columns = []
    for kind in kinds:
        type_, values = TYPES[kind]
        columns.append(pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), type_))
    return pa.record_batch(columns, names=[f"c{at}" for at in range(len(kinds))]).slice(draw(st.integers(0, count - 1)))


def parts(message: bytes) -> dict[int, memoryview]:
    return {number: value for number, value in fields(memoryview(message)) if isinstance(value, memoryview)}


@given(batches(), st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_batch_and_its_place_come_back(batch: pa.RecordBatch, epoch: int, row: int) -> None:
    (message,) = messages.FlightEncoder().encode(Data(cursor=Cursor(epoch, row), rows=batch.num_rows, batches=(batch,)))
    found = parts(message)
    whole = b"\xff\xff\xff\xff" + len(found[2]).to_bytes(4, "little") + found[2] + found[1000]
    back = messages.read_frame(pa.ipc.read_record_batch(pa.py_buffer(whole), batch.schema), bytes(found[3]))
    assert (back.cursor, back.rows, back.batches) == (Cursor(epoch, row), batch.num_rows, (batch,))
    assert (len(message) - len(found[1000])) % 8 == 0  # where the body begins


def test_each_batch_of_a_frame_is_a_message_that_says_where_it_stands() -> None:
    rows = [pa.record_batch({"x": range(count)}) for count in (3, 4)]
    frame = Data(cursor=Cursor(2, 10), rows=7, batches=tuple(rows))
    places = [pb.Frame.FromString(bytes(parts(each)[3])).data for each in messages.FlightEncoder().encode(frame)]
    assert [(place.epoch, place.row, place.rows) for place in places] == [(2, 10, 3), (2, 13, 4)]


def test_a_frame_without_rows_is_metadata_alone() -> None:
    (message,) = messages.FlightEncoder().encode(Finished())
    assert list(parts(message)) == [3]
    assert messages.read_frame(None, bytes(parts(message)[3])) == Finished()


def test_a_ticket_is_bytes_of_ours_or_json() -> None:
    request = pb.ResultsRequest(task="t", ready=True)
    for ticket, expected in (
        (b'{"task": "t", "epoch": 3}', pb.FlightTicket(task="t", epoch=3)),
        (messages.ticket_bytes(pb.FlightTicket(task="t", epoch=3)), pb.FlightTicket(task="t", epoch=3)),
        (messages.ticket_bytes(pb.FlightTicket(results=request)), pb.FlightTicket(results=request)),
    ):
        assert messages.read_ticket(flight.Ticket(ticket).serialize()) == expected


def test_a_flights_info_and_schema_are_read_by_pyarrow() -> None:
    schema = pa.schema([("x", pa.int64())], metadata={"a": "b"})
    path = flight.FlightDescriptor.for_path("t", "4")
    assert messages.read_descriptor(path.serialize()) == ("t", 4)
    info = flight.FlightInfo.deserialize(messages.flight_info(schema, path.serialize(), "t", 4))
    assert info.schema.equals(schema, check_metadata=True)
    assert (info.descriptor, info.ordered) == (path, True)
    assert messages.read_ticket(info.endpoints[0].ticket.serialize()) == pb.FlightTicket(task="t", epoch=4)
    assert flight.SchemaResult.deserialize(messages.schema_result(schema)).schema.equals(schema, check_metadata=True)


@given(st.binary(max_size=40))
def test_bytes_of_strangers_are_read_or_refused(data: bytes) -> None:
    for read in (messages.read_ticket, messages.read_descriptor):
        with contextlib.suppress(InvalidRequest):
            assert read(data)


@given(st.integers(0, 2**64 - 1), st.integers(0, 10))
def test_a_varint_may_be_wider_than_it_need_be(value: int, width: int) -> None:
    assert list(fields(memoryview(b"\x08" + varint(value, width)))) == [(1, value)]


@pytest.mark.parametrize("data", [b"\x08", b"\x08" + b"\xff" * 11, b"\x0a\x05a", b"\x0b"])
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a varint|a field"):
        list(fields(memoryview(data)))

"""Requests to Flight, and the metadata beside its batches."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto.arrow.without_rows import no_rows
from tidegate.proto.encoding import flight_messages as flight
from tidegate.proto.errors import InvalidRequest
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import Barrier, Blocked, BlockedState, Cursor, Data, Finished

SCHEMA = pa.schema([("x", pa.int64())])


def test_each_batch_of_a_frame_says_where_it_stands() -> None:
    rows = [pa.record_batch({"x": range(count)}) for count in (3, 4)]
    frame = Data(cursor=Cursor(2, 10, run=5), rows=7, batches=tuple(rows))
    read = [flight.read_frame(*frame_batch) for frame_batch in flight.frame_batches(frame, no_rows(SCHEMA))]
    assert [(data.cursor, data.rows) for data in read] == [(Cursor(2, 10), 3), (Cursor(2, 13), 4)]
    assert [data.batches for data in read] == [(batch,) for batch in rows]
    assert [data.cursor.run for data in read] == [5, 5]


@pytest.mark.parametrize(
    "frame", [Finished(), Blocked(state=BlockedState.WORKING), Barrier(epoch=3, rows=0, watermark=7)], ids=repr
)
def test_a_frame_without_rows_comes_back_from_what_is_told_beside_none(frame: object) -> None:
    ((batch, metadata),) = flight.frame_batches(frame, no_rows(SCHEMA))
    assert (batch.num_rows, batch.schema) == (0, SCHEMA)
    assert flight.read_frame(batch, metadata) == frame


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.month_day_nano_interval(),
        pa.decimal128(38, 3),
        pa.binary(4),
        pa.list_(pa.struct([("a", pa.string())])),
        pa.map_(pa.string(), pa.timestamp("us", "UTC")),
        pa.list_(pa.uuid()),
        pa.struct([("a", pa.uuid())]),
    ],
    ids=str,
)
def test_every_type_can_have_no_rows(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("a", kind), pa.field("b", pa.int64(), nullable=False)])
    assert (no_rows(schema).schema, no_rows(schema).num_rows) == (schema, 0)


def test_a_ticket_is_bytes_of_ours_or_json() -> None:
    request = pb.ResultsRequest(task="t", ready=True)
    for ticket, expected in (
        (b'{"task": "t", "epoch": 3}', pb.FlightTicket(task="t", epoch=3)),
        (flight.epoch_ticket("t", 3), pb.FlightTicket(task="t", epoch=3)),
        (pb.FlightTicket(task="t", epoch=3).SerializeToString(), pb.FlightTicket(task="t", epoch=3)),
        (flight.results_ticket(request), pb.FlightTicket(results=request)),
    ):
        assert flight.read_ticket(ticket) == expected


def test_a_path_is_a_task_and_an_epoch() -> None:
    assert flight.read_path([b"t", b"4"]) == ("t", 4)


@pytest.mark.parametrize(
    "path",
    [None, [], [b"t"], [b"t", b"one"], [b"t", b"0"], [b"t", b"-1"], [b"t", b"1" * 30], [b"\xff", b"1"]],
    ids=repr,
)
def test_a_path_of_something_else_is_refused(path: list[bytes] | None) -> None:
    with pytest.raises(InvalidRequest, match="a task's id, and an epoch's number"):
        flight.read_path(path)


@given(st.binary(max_size=40))
def test_tickets_of_strangers_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        assert flight.read_ticket(data)

"""Results for any Arrow Flight client: pyarrow's, which knows nothing of Tidegate."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

import tidegate

from ..executor.fakes import POISON
from .running import fake_server

COLUMN = pa.schema([("x", pa.int64())])


@pytest.fixture
def address() -> Iterator[str]:
    with fake_server() as listening:
        yield listening


@pytest.fixture
def client(address: str) -> Iterator[tidegate.Client]:
    with tidegate.connect(address) as connected:
        yield connected


@pytest.fixture
def foreign(address: str) -> Iterator[flight.FlightClient]:
    with flight.connect(f"grpc://{address}") as connected:
        yield connected


def ticket(task: tidegate.Task, epoch: int) -> flight.Ticket:
    return flight.Ticket(json.dumps({"task": task.id, "epoch": epoch}))


def feed(task: tidegate.Task, *numbers: int) -> int:
    task.add_split("a", pa.table({"x": pa.array(numbers, pa.int64())}))
    return task.request_barrier()


def test_an_epoch_is_read_whole_and_alone_as_often_as_one_likes(
    client: tidegate.Client, foreign: flight.FlightClient
) -> None:
    task = client.create_task(b"plan")
    for first in (0, 1_000_000):
        feed(task, *range(first, first + 500_000))
    for epoch, first in ((2, 1_000_000), (1, 0), (1, 0)):
        table = foreign.do_get(ticket(task, epoch)).read_all()
        assert table == pa.table({"x": range(first, first + 500_000)}, schema=COLUMN)


def test_reading_an_epoch_waits_for_its_barrier(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    reader = foreign.do_get(ticket(task, 1))
    assert reader.schema == COLUMN
    feed(task, 1, 2)
    assert reader.read_all()["x"].to_pylist() == [1, 2]


def test_a_deadline_ends_the_wait(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    with pytest.raises(flight.FlightTimedOutError):
        foreign.do_get(ticket(task, 1), flight.FlightCallOptions(timeout=0.1)).read_all()
    assert task.run_epoch({"a": pa.table({"x": [1]})}).rows == 1


def test_cancelling_the_task_ends_the_wait(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    reader = foreign.do_get(ticket(task, 1))
    task.cancel()
    with pytest.raises(pa.ArrowException, match="cancelled"):
        reader.read_all()


def test_an_empty_epoch_is_an_empty_table(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    task.request_barrier()
    assert foreign.do_get(ticket(task, 1)).read_all() == COLUMN.empty_table()


def test_a_skipped_epoch_is_an_error_and_the_next_one_is_not(
    client: tidegate.Client, foreign: flight.FlightClient
) -> None:
    task = client.create_task(b"plan", on_error="skip_epoch")
    feed(task, POISON)
    feed(task, 2)
    with pytest.raises(pa.ArrowException, match="poison"):
        foreign.do_get(ticket(task, 1)).read_all()
    assert foreign.do_get(ticket(task, 2)).read_all()["x"].to_pylist() == [2]


def test_a_task_that_failed_says_so_after_its_last_good_epoch(
    client: tidegate.Client, foreign: flight.FlightClient
) -> None:
    task = client.create_task(b"plan")
    feed(task, 1)
    feed(task, POISON)
    assert foreign.do_get(ticket(task, 1)).read_all()["x"].to_pylist() == [1]
    with pytest.raises(pa.ArrowException, match="poison"):
        foreign.do_get(ticket(task, 2)).read_all()


def test_there_is_no_epoch_behind_the_end(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    feed(task, 1)
    task.no_more_splits()
    with pytest.raises(pa.ArrowException, match="there is no epoch 2"):
        foreign.do_get(ticket(task, 2)).read_all()


def test_an_epochs_flight_has_its_schema_and_ticket(client: tidegate.Client, foreign: flight.FlightClient) -> None:
    task = client.create_task(b"plan")
    feed(task, 7)
    path = flight.FlightDescriptor.for_path(task.id, "1")
    info = foreign.get_flight_info(path)
    assert (info.schema, info.descriptor, info.total_records, info.total_bytes) == (COLUMN, path, -1, -1)
    (endpoint,) = info.endpoints
    assert not endpoint.locations
    assert foreign.do_get(endpoint.ticket).read_all()["x"].to_pylist() == [7]
    assert foreign.get_schema(path).schema == COLUMN


@pytest.mark.parametrize(
    "ticket",
    [
        b"",
        b"wide",
        b"{",
        b"{" * 5000,
        b'{"task": "t"}',
        b'{"epoch": 1}',
        b'{"task": "t", "epoch": 0}',
        b'{"task": "t", "epoch": -1}',
        b'{"task": "t", "epoch": 1, "results": {"task": "t"}}',
        b'{"task": "t", "epoch": 1, "rows": 2}',
        b"{\xff}",
    ],
    ids=lambda ticket: ticket[:40],
)
def test_a_ticket_that_is_none_is_refused_with_what_would_be_one(foreign: flight.FlightClient, ticket: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"\{\"task\": \"...\", \"epoch\": 1\}"):
        foreign.do_get(flight.Ticket(ticket))


@pytest.mark.parametrize(
    "descriptor",
    [
        flight.FlightDescriptor.for_path("t"),
        flight.FlightDescriptor.for_path("t", "one"),
        flight.FlightDescriptor.for_path("t", "1", "2"),
        flight.FlightDescriptor.for_command("t"),
    ],
    ids=repr,
)
def test_a_descriptor_of_something_else_is_refused(
    foreign: flight.FlightClient, descriptor: flight.FlightDescriptor
) -> None:
    for ask in (foreign.get_flight_info, foreign.get_schema):
        with pytest.raises(pa.ArrowInvalid, match="a task's id, and an epoch's number"):
            ask(descriptor)


def test_a_task_that_is_not_there_is_said_to_be_so(foreign: flight.FlightClient) -> None:
    with pytest.raises(KeyError, match="no task 'none'"):
        foreign.do_get(flight.Ticket(b'{"task": "none", "epoch": 1}'))
    with pytest.raises(KeyError, match="no task 'none'"):
        foreign.get_flight_info(flight.FlightDescriptor.for_path("none", "1"))


def test_what_else_flight_has_is_refused_with_a_sentence(foreign: flight.FlightClient) -> None:
    for ask in (foreign.list_flights, foreign.list_actions, lambda: foreign.do_action("drop")):
        with pytest.raises(NotImplementedError, match="Tidegate serves results over Arrow Flight, with DoGet"):
            list(ask())

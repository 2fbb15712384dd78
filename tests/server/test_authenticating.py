"""Tokens: who may call, and that what one principal has made is there for no other."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pyarrow import flight

import tidegate
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.tidegate.v1 import plans_pb2, tasks_pb2, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.access.tokens import Tokens

from ..executor.plans import passed_through
from .conftest import inline
from .running import flight_address, manager, served

ALICE, BOB = "alice-has-this-token-0001", "bob-has-another-token-0002"
METHODS = [
    (f"/{service.full_name}/{method.name}", method.client_streaming, method.server_streaming)
    for service in (*tasks_pb2.DESCRIPTOR.services_by_name.values(), *plans_pb2.DESCRIPTOR.services_by_name.values())
    for method in service.methods
]


def tokens_file(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    digest = hashlib.sha256(BOB.encode()).hexdigest()
    tokens = Tokens(tokens_file(tmp_path / "tokens", "# who may call", f"alice {ALICE}", f"bob sha256:{digest}"))
    root = tmp_path / "checkpoints"
    root.mkdir()
    with manager(principals=True, checkpoint_root=root) as backend, served(backend, tokens=tokens) as listening:
        yield listening


@pytest.fixture
def alice(address: str) -> Iterator[tidegate.Client]:
    with tidegate.connect(address, token=ALICE) as client:
        yield client


@pytest.fixture
def bob(address: str) -> Iterator[tidegate.Client]:
    with tidegate.connect(address, token=BOB) as client:
        yield client


def arrow_file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def call(
    channel: grpc.Channel, method: str, streams: Sequence[bool], request: bytes = b"", metadata: object = None
) -> grpc.RpcError:
    """What a call of the method fails with."""
    sends, answers = streams
    kind = channel.stream_unary if sends else channel.unary_stream if answers else channel.unary_unary
    requests = iter([request]) if sends else request
    answer = kind(method)
    with pytest.raises(grpc.RpcError) as refused:
        next(answer(requests, metadata=metadata, timeout=20))
    return refused.value


@pytest.mark.parametrize(("method", "sends", "answers"), METHODS)
def test_no_method_is_for_those_without_a_token(address: str, method: str, sends: bool, answers: bool) -> None:
    with grpc.insecure_channel(address) as channel:
        refused = call(channel, method, (sends, answers))
    assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "the call has no token" in refused.details()


@pytest.mark.parametrize(
    "header", [f"Bearer {ALICE}x", f"Bearer {ALICE[:-1]}", "Bearer ", "Bearer", f"Basic {ALICE}", ALICE, ""]
)
def test_what_is_no_known_token_is_refused_and_not_repeated(address: str, header: str) -> None:
    with grpc.insecure_channel(address) as channel:
        method, *streams = METHODS[0]
        refused = call(channel, method, streams, metadata=(("authorization", header),))
    assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "does not know the token" in refused.details()
    assert ALICE[:-1] not in str(refused)


def test_two_tokens_in_one_call_are_none(address: str) -> None:
    both = tuple(("authorization", f"Bearer {token}") for token in (ALICE, BOB))
    with grpc.insecure_channel(address) as channel:
        method, *streams = METHODS[0]
        assert call(channel, method, streams, metadata=both).code() is grpc.StatusCode.UNAUTHENTICATED


def test_health_is_for_everybody_and_reflection_is_not(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        with pytest.raises(grpc.RpcError) as refused:
            list(asked)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_client_without_a_token_is_told_what_would_be_right(address: str) -> None:
    with tidegate.connect(address) as client, pytest.raises(tidegate.Unauthenticated, match="token_file") as refused:
        client.tasks()
    assert refused.value.reason == "TOKEN_MISSING"


def test_with_a_token_a_task_runs_as_ever(alice: tidegate.Client) -> None:
    with alice.create_task(b"plan") as task:
        assert task.run_epoch({"a": pa.table({"x": [1, 2]})}).table()["x"].to_pylist() == [1, 2]
        assert [listed.id for listed in alice.tasks()] == [task.id]


def test_a_server_says_who_it_takes_a_client_for(alice: tidegate.Client, bob: tidegate.Client) -> None:
    assert [client.capabilities().principal for client in (alice, bob)] == ["alice", "bob"]


def test_a_large_epoch_is_read_ahead_with_the_token(alice: tidegate.Client) -> None:
    rows = pa.table({"x": pa.array(range(1_000_000), pa.int64())})
    with alice.create_task(b"plan") as task:
        assert task.run_epoch({"a": rows}).table()["x"].to_pylist() == list(range(1_000_000))
        assert task.service.large_results == "Flight"


def bearing(token: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])


@pytest.fixture
def foreign(alice: tidegate.Client) -> Iterator[flight.FlightClient]:
    with flight.connect(f"grpc://{flight_address(alice)}") as client:
        yield client


def test_anothers_epoch_is_no_flight(alice: tidegate.Client, foreign: flight.FlightClient) -> None:
    with alice.create_task(b"plan") as task:
        task.run_epoch({"a": pa.table({"x": [1]})})
        ticket = flight.Ticket(json.dumps({"task": task.id, "epoch": 1}))
        path = flight.FlightDescriptor.for_path(task.id, "1")
        assert foreign.do_get(ticket, bearing(ALICE)).read_all()["x"].to_pylist() == [1]
        for ask, what in ((foreign.do_get, ticket), (foreign.get_flight_info, path), (foreign.get_schema, path)):
            with pytest.raises(pa.ArrowException, match="there is no task"):
                ask(what, bearing(BOB))


PATH = flight.FlightDescriptor.for_path("t", "1")
FLIGHTS = {
    "DoGet": lambda foreign, options: foreign.do_get(flight.Ticket(b"{}"), options),
    "GetFlightInfo": lambda foreign, options: foreign.get_flight_info(PATH, options),
    "GetSchema": lambda foreign, options: foreign.get_schema(PATH, options),
    "ListActions": lambda foreign, options: list(foreign.list_actions(options)),
    "DoPut": lambda foreign, options: foreign.do_put(PATH, pa.schema([]), options)[0].close(),
}


@pytest.mark.parametrize("ask", FLIGHTS.values(), ids=FLIGHTS)
def test_no_flight_is_for_those_without_a_token(ask: Callable[..., object], foreign: flight.FlightClient) -> None:
    for options, said in ((None, "the call has no token"), (bearing(f"{ALICE}x"), "does not know the token")):
        # Of GetSchema's errors pyarrow's client tells no more than the sentence.
        with pytest.raises((flight.FlightUnauthenticatedError, OSError), match=said) as refused:
            ask(foreign, options)
        assert ALICE not in str(refused.value)


MORE = {
    "AddSplit": {"source": "a", "split": inline(1)},
    "GetTransaction": {"application": "nightly"},
    "DropUploads": {"group": "some"},
    "Acknowledge": {"cursor": pb.Cursor(epoch=1)},
    "FindFiles": {"file": pb.FileSplit(path="rows.parquet")},
}
"""What a call that names a task has to say besides, to get as far as that."""

NAMING = [
    method
    for method in tasks_pb2.DESCRIPTOR.services_by_name["TaskService"].methods
    if "task" in method.input_type.fields_by_name and method.name != "ListCheckpoints"
]


@pytest.mark.parametrize("method", NAMING, ids=lambda method: method.name)
def test_anothers_task_is_not_found_just_as_one_that_never_was(
    address: str, alice: tidegate.Client, method: MethodDescriptor
) -> None:
    hers = alice.create_task(b"plan").id
    path, streams = (
        f"/{method.containing_service.full_name}/{method.name}",
        (method.client_streaming, method.server_streaming),
    )
    said = []
    with grpc.insecure_channel(address) as channel:
        for identity in (hers, f"{hers[:-1]}x"):
            request = GetMessageClass(method.input_type)(task=identity, **MORE.get(method.name, {}))
            refused = call(channel, path, streams, request.SerializeToString(), (("authorization", f"Bearer {BOB}"),))
            said.append((refused.code(), refused.details().replace(identity, "ID")))
    assert said == [(grpc.StatusCode.NOT_FOUND, "there is no task 'ID'; it may have been deleted")] * 2
    assert [(task.id, task.state) for task in alice.tasks()] == [(hers, tidegate.TaskPhase.RUNNING)]


def test_a_list_has_ones_own_tasks_alone(alice: tidegate.Client, bob: tidegate.Client) -> None:
    hers, his = alice.create_task(b"plan"), bob.create_task(b"plan")
    assert [task.id for task in alice.tasks()] == [hers.id]
    assert [task.id for task in bob.tasks()] == [his.id]


def test_a_request_of_anothers_makes_a_task_of_ones_own(address: str) -> None:
    created = []
    with grpc.insecure_channel(address) as channel:
        create = tasks_pb2_grpc.TaskServiceStub(channel).CreateTask
        for token in (ALICE, BOB, ALICE):
            request = pb.CreateTaskRequest(plan=pb.PlanBytes(binary=b"plan"), request="the same")
            created.append(create(request, metadata=(("authorization", f"Bearer {token}"),)).task.id)
    assert created[0] == created[2] != created[1]


def test_what_another_has_uploaded_is_no_file(tmp_path: Path) -> None:
    plan, rows = passed_through("a").json, arrow_file(pa.table({"a": [1]}))
    tokens = Tokens(tokens_file(tmp_path / "tokens", f"alice {ALICE}", f"bob {BOB}"))
    with contextlib.ExitStack() as stack:
        backend = stack.enter_context(manager(PlanEngine([], tmp_path), principals=True))
        address = stack.enter_context(served(backend, tokens=tokens))
        alice, bob = (stack.enter_context(tidegate.connect(address, token=token)) for token in (ALICE, BOB))
        task = alice.create_task(plan)
        for_a_table = tidegate.FileSplit(alice.service.upload("", "table.arrow", [rows]))
        for_a_split = tidegate.FileSplit(alice.service.upload(task.id, "split.arrow", [rows]))
        with pytest.raises(tidegate.NotFound, match="is not there any more"):
            bob.create_task(plan, tables={"a": for_a_table})
        with pytest.raises(tidegate.Forbidden, match="outside of the folders"):
            bob.create_task(plan, tables={"a": for_a_split})
        for upload in (for_a_table, for_a_split):
            with pytest.raises(tidegate.Forbidden, match="outside of the folders"):
                bob.create_task(plan).add_split("a", upload)
        task.add_split("a", for_a_split)
        alice.create_task(plan, tables={"a": for_a_table})


def test_anothers_checkpoint_is_not_there(alice: tidegate.Client, bob: tidegate.Client) -> None:
    with alice.create_task(b"plan") as task:
        taken = task.run_epoch({"a": pa.table({"x": [1]})}, checkpoint="last").checkpoint
    with pytest.raises(tidegate.NotFound, match="the task's checkpoints are: none") as missing:
        bob.create_task(b"plan", restore=taken)
    assert missing.value.reason == "UNKNOWN_CHECKPOINT"
    assert [checkpoint.id for checkpoint in alice.checkpoints(task.id)] == [taken]
    assert not bob.checkpoints(task.id)
    alice.create_task(b"plan", restore=taken)


def test_no_log_has_a_token_in_it(address: str, alice: tidegate.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        with alice.create_task(b"plan") as task:
            task.run_epoch({"a": pa.table({"x": [1]})})
        with tidegate.connect(address, token=f"{ALICE}-old") as stranger, pytest.raises(tidegate.Unauthenticated) as no:
            stranger.tasks()
    assert ALICE not in caplog.text
    assert ALICE not in str(no.value)


# ------------------------------------------------------------------------------------------------------- the file


@pytest.fixture
def looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the file is seen by the next call, not a second later."""
    monkeypatch.setattr("tidegate.server.access.tokens._LOOK_SECONDS", 0.0)


@pytest.mark.usefixtures("looked_at_once")
def test_a_changed_file_counts_from_the_next_call_on(tmp_path: Path) -> None:
    tokens = Tokens(tokens_file(tmp_path / "tokens", f"alice {ALICE}"))
    assert (tokens.principal(ALICE), tokens.principal(BOB)) == ("alice", None)
    tokens_file(tmp_path / "new", f"alice {BOB}", f"bob {ALICE}0").replace(tmp_path / "tokens")
    assert (tokens.principal(ALICE), tokens.principal(BOB), tokens.principal(f"{ALICE}0")) == (None, "alice", "bob")


@pytest.mark.usefixtures("looked_at_once")
def test_who_has_lost_the_token_feeds_no_longer_than_a_feed_lasts(
    tmp_path: Path, address: str, alice: tidegate.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = alice.create_task(b"plan")
    task.run_epoch({"a": pa.table({"x": [1]})})
    tokens_file(tmp_path / "tokens", f"bob {BOB}")
    assert task.run_epoch({"a": pa.table({"x": [2]})}).rows == 1
    monkeypatch.setattr("tidegate.server.endpoints.task_service.LONGEST_FEED", 0.0)
    with pytest.raises(tidegate.Unauthenticated):
        task.run_epoch({"a": pa.table({"x": [3]})})


@pytest.mark.usefixtures("looked_at_once")
def test_a_file_that_became_wrong_changes_nothing_but_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens(tokens_file(tmp_path / "tokens", f"alice {ALICE}"))
    tokens_file(tmp_path / "new", f"alice {BOB} {BOB}").replace(tmp_path / "tokens")
    assert tokens.principal(ALICE) == "alice"
    assert "the server keeps the previous tokens: " in caplog.text
    assert BOB not in caplog.text


def test_a_principal_may_have_two_tokens_for_a_while(tmp_path: Path) -> None:
    tokens = Tokens(tokens_file(tmp_path / "tokens", f"alice {ALICE}", f"alice {BOB}"))
    assert tokens.principal(ALICE) == tokens.principal(BOB) == "alice"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("alice", "line 1: .* not 1$"),
        (f"alice {ALICE} {ALICE}", "line 1: .* not 3$"),
        ("alice short", "20 ASCII characters"),
        (f"alice {ALICE}ü", "ASCII"),
        ("alice sha256:beef", "64 hexadecimal digits"),
        (f"al/ice {ALICE}", "a principal must be"),
        ("# nobody", "has no tokens"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_not_shown(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=said) as wrong:
        Tokens(tokens_file(tmp_path / "tokens", line))
    assert ALICE not in str(wrong.value)


@pytest.mark.parametrize(
    ("mode", "token", "said"),
    [(0o644, ALICE, "everybody on this machine may read"), (0o622, f"sha256:{'0' * 64}", "users other than its owner")],
)
def test_a_file_that_others_have_too_much_of_is_refused(tmp_path: Path, mode: int, token: str, said: str) -> None:
    path = tokens_file(tmp_path / "tokens", f"alice {token}")
    path.chmod(mode)
    with pytest.raises(tidegate.InvalidRequest, match=said):
        Tokens(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: os.mkfifo(path, 0o600), "is not a plain file"),
        (lambda path: path.mkdir(), "tokens is not a plain file|Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a plain file"),
        (lambda path: path.write_bytes(bytes(2 << 20)), "has 2,097,152 bytes; at most 1,048,576"),
    ],
    ids=["pipe", "folder", "device", "large"],
)
@pytest.mark.usefixtures("looked_at_once")
def test_what_is_no_small_file_is_not_read(
    make: Callable[[Path], object], said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tokens_file(tmp_path / "tokens", f"alice {ALICE}")
    tokens = Tokens(path)
    path.unlink()
    make(path)
    assert tokens.principal(ALICE) == "alice"
    assert re.search(said, caplog.text)
    with pytest.raises(tidegate.InvalidRequest, match=said):
        Tokens(path)


def test_a_token_is_one_principals(tmp_path: Path) -> None:
    lines = (f"alice {ALICE}", f"bob sha256:{hashlib.sha256(ALICE.encode()).hexdigest()}")
    with pytest.raises(tidegate.InvalidRequest, match="line 2: another principal has the same token") as wrong:
        Tokens(tokens_file(tmp_path / "tokens", *lines))
    assert ALICE not in str(wrong.value)


def test_digests_may_be_read_by_everybody(tmp_path: Path) -> None:
    path = tokens_file(tmp_path / "tokens", f"alice sha256:{hashlib.sha256(ALICE.encode()).hexdigest()}")
    path.chmod(0o644)
    assert Tokens(path).principal(ALICE) == "alice"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"tokens cannot be read: .*nowhere: No such file"):
        Tokens(tmp_path / "nowhere")

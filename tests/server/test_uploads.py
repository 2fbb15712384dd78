"""Uploads over gRPC: one that stalls holds nobody up, and nothing is left of one that is given up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tidegate.executor.service.manager import TaskManager
from tidegate.executor.tasks.task_uploads import Reception
from tidegate.proto.encoding.wire_format import varint
from tidegate.proto.errors import NotFound
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.tidegate.v1 import tasks_pb2_grpc
from tidegate.server.endpoints import upload_endpoint as uploads

from ..executor.fakes import PLAN
from ..waiting import until
from .raw_http2 import RawConnection
from .running import manager, served

UPLOAD = "/tidegate.v1.TaskService/Upload"


@pytest.fixture
def backend() -> Iterator[TaskManager]:
    with manager() as task_manager:
        yield task_manager


@pytest.fixture
def channel(backend: TaskManager) -> Iterator[grpc.Channel]:
    with served(backend) as address, grpc.insecure_channel(address) as opened:
        yield opened


class Stalled:
    """An upload that has sent some bytes, and sends no more until it is let go."""

    def __init__(self, channel: grpc.Channel, task: str) -> None:
        self._task = task
        self.go_on = threading.Event()
        self.call = tasks_pb2_grpc.TaskServiceStub(channel).Upload.future(self._requests())

    def _requests(self) -> Iterator[pb.UploadRequest]:
        yield pb.UploadRequest(task=self._task, name="x.csv", data=b"first")
        self.go_on.wait(60)
        yield pb.UploadRequest(data=b"last")


def reason_of(call: grpc.Future) -> str:
    """The reason with which the server refuses the call."""
    return dict(call.exception(timeout=30).trailing_metadata())["tidegate-reason"]


def kept(backend: TaskManager) -> list[Path]:
    return [path for path in backend.folder.rglob("*.upload.csv") if path.is_file()]


def test_uploads_that_stall_keep_no_other_from_its_end(backend: TaskManager, channel: grpc.Channel) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    stalled = [Stalled(channel, task) for _ in range(uploads.AT_ONCE - 1)]
    until(lambda: len(kept(backend)) == len(stalled))
    stub = tasks_pb2_grpc.TaskServiceStub(channel)
    path = stub.Upload(iter([pb.UploadRequest(task=task, name="y.csv", data=b"all")]), timeout=30).path
    assert Path(path).read_bytes() == b"all"
    for upload in stalled:
        upload.go_on.set()
    assert {Path(upload.call.result().path).read_bytes() for upload in stalled} == {b"firstlast"}


def test_there_are_so_many_uploads_at_once(backend: TaskManager, channel: grpc.Channel) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    stalled = [Stalled(channel, task) for _ in range(uploads.AT_ONCE)]
    until(lambda: len(kept(backend)) == len(stalled))
    more = Stalled(channel, task)
    assert reason_of(more.call) == "TOO_MANY_UPLOADS"
    for upload in (more, *stalled):
        upload.go_on.set()
        upload.call.exception(timeout=30)


def test_nothing_is_left_of_an_upload_that_is_cancelled(backend: TaskManager, channel: grpc.Channel) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    stalled = Stalled(channel, task)
    until(lambda: kept(backend))
    stalled.call.cancel()
    until(lambda: not kept(backend))
    stalled.go_on.set()


def test_nothing_is_left_of_an_upload_whose_connection_is_cut(backend: TaskManager) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    first = pb.UploadRequest(task=task, name="x.csv", data=b"first").SerializeToString()
    with served(backend) as address:
        with RawConnection(address) as connection:
            connection.begin(UPLOAD, len(first), first)
            until(lambda: kept(backend))
        until(lambda: not kept(backend))


@pytest.mark.parametrize(
    ("later", "said"),
    [(b"\xff\xff\xff\xff", "MALFORMED_REQUEST"), (b"\x1a\x80\x80\x04" + bytes(1 << 16), "REQUEST_TOO_LARGE")],
    ids=["malformed", "too large"],
)
def test_an_upload_whose_later_message_is_bad_is_refused_and_leaves_nothing(
    backend: TaskManager, later: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id

    def messages() -> Iterator[bytes]:
        yield pb.UploadRequest(task=task, name="x.csv", data=b"first").SerializeToString()
        until(lambda: kept(backend))
        yield later

    with served(backend, max_message_bytes=1 << 16) as address, grpc.insecure_channel(address) as channel:
        assert reason_of(channel.stream_unary(UPLOAD).future(messages())) == said
        until(lambda: not kept(backend))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_upload_onto_a_full_disk_is_refused_with_a_reason_and_leaves_nothing(
    backend: TaskManager, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin = backend.begin_upload

    def onto_a_full_disk(task: str, name: str, *, group: str = "") -> Reception:
        reception = begin(task, name, group=group)
        reception._sink.close()
        reception._sink = open("/dev/full", "wb", buffering=0)  # noqa: SIM115  # the reception closes it
        return reception

    monkeypatch.setattr(backend, "begin_upload", onto_a_full_disk)
    task = backend.create_task(PLAN, backend.defaults, {}).id
    assert uploaded(channel, task, b"x.csv") == "SPILL_FAILED"
    assert kept(backend) == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_upload_of_which_nothing_comes_is_given_up(
    backend: TaskManager, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "CHUNK_SECONDS", 0.1)
    task = backend.create_task(PLAN, backend.defaults, {}).id
    stalled = Stalled(channel, task)
    assert reason_of(stalled.call) == "UPLOAD_STALLED"
    assert stalled.call.code() is grpc.StatusCode.UNAVAILABLE
    until(lambda: not kept(backend))
    stalled.go_on.set()


def test_nothing_is_left_of_an_upload_that_is_cancelled_while_it_begins(
    backend: TaskManager, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, goes_on = threading.Event(), threading.Event()
    begin, receptions = backend.begin_upload, []

    def slowly(task: str, name: str, *, group: str = "") -> Reception:
        begins.set()
        goes_on.wait(60)
        receptions.append(begin(task, name, group=group))
        return receptions[0]

    monkeypatch.setattr(backend, "begin_upload", slowly)
    task = backend.create_task(PLAN, backend.defaults, {}).id
    call = Stalled(channel, task)
    assert begins.wait(60)
    call.call.cancel()
    tasks_pb2_grpc.TaskServiceStub(channel).GetTask(pb.GetTaskRequest(task=task), timeout=30)
    goes_on.set()
    until(lambda: receptions and not kept(backend))
    with pytest.raises(NotFound, match="has ended"):
        receptions[0].write(b"more")
    call.go_on.set()


def test_nothing_is_left_of_uploads_that_a_server_ends(backend: TaskManager) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    with served(backend, grace_seconds=0.05) as address, grpc.insecure_channel(address) as channel:
        stalled = [Stalled(channel, task) for _ in range(uploads.AT_ONCE)]
        until(lambda: len(kept(backend)) == len(stalled))
    assert not kept(backend)
    for upload in stalled:
        upload.go_on.set()


def test_a_name_that_the_server_keeps_has_a_longest_length(backend: TaskManager, channel: grpc.Channel) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    stub = tasks_pb2_grpc.TaskServiceStub(channel)
    with pytest.raises(grpc.RpcError, match="at most 200 characters, not of 201") as refused:
        stub.Upload(iter([pb.UploadRequest(task=task, name="x.csv", group="g" * 201)]))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    split = pb.Split(file=pb.FileSplit(path="x.csv"), change_column="c" * 1_001)
    with pytest.raises(grpc.RpcError, match="of 1,001 characters; at most 1,000 are allowed") as refused:
        stub.AddSplit(pb.AddSplitRequest(task=task, source="a", split=split))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert stub.Upload(iter([pb.UploadRequest(task=task, name="x.csv", group="g" * 200)])).path


LONG = "l" * 300
LONGEST = "x." + "l" * 31


def uploaded(channel: grpc.Channel, task: str, name: bytes, data: bytes = b"a\n1\n") -> str:
    """The path of a file with this name, which may be no UTF-8, or the reason of its refusal."""
    split = pb.UploadRequest(task=task, data=data).SerializeToString() + _field(2, name)
    call = channel.stream_unary(UPLOAD, None, pb.UploadResponse.FromString)
    try:
        return str(call(iter([split]), timeout=30).path)
    except grpc.RpcError as error:
        return dict(error.trailing_metadata())["tidegate-reason"]


def _field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("", ""),
        ("x", ""),
        (".csv", ""),
        ("/", ""),
        ("///", ""),
        ("..", ""),
        ("../../etc/x.csv", ".csv"),
        ("..\\..\\x.csv", ".csv"),
        ("/etc/passwd.csv/", ".csv"),
        ("x.csv/..", ""),
        ("x\0y.csv", ".csv"),
        ("x\ny.csv", ".csv"),
        ("x.é", ".é"),
        ("x.csv.gz", ".csv.gz"),
        (f"{LONG}.csv", ".csv"),
        (f"{'n' * 1_000_000}.csv", ".csv"),
        (LONGEST, LONGEST[1:]),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_upload_is_kept_under_a_name_of_the_server_with_the_suffix_of_its_own(
    backend: TaskManager, channel: grpc.Channel, name: str, ending: str
) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    path = Path(uploaded(channel, task, name.encode()))
    assert path.name.partition(".upload")[2] == ending
    assert path.read_bytes() == b"a\n1\n"
    assert path.resolve().is_relative_to(backend.folder.resolve())


@pytest.mark.parametrize(
    "name",
    [
        f"x.{LONG}",
        f"x.csv.{LONG}",
        f"x.{LONG}.csv",
        f"x.{'l' * 1_000_000}",
        f"{LONGEST}l",
        "x." + "é" * 16,
        "x.c\0sv",
        "x.csv\0",
        "x.c\\sv.a b",
        "x.\u202evsc",
        "x.*",
        "x.'; DROP TABLE t; --",
        b"x.\xff\xfe",
        b"\xff.csv",
        b"x.\xed\xa0\x80",
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_upload_with_a_name_that_no_file_can_have_is_refused_with_a_reason(
    backend: TaskManager, channel: grpc.Channel, name: str | bytes
) -> None:
    task = backend.create_task(PLAN, backend.defaults, {}).id
    refused = ("INVALID_REQUEST", name.encode()) if isinstance(name, str) else ("MALFORMED_REQUEST", name)
    assert uploaded(channel, task, refused[1]) == refused[0]
    assert not [path for path in backend.folder.rglob("*.upload*") if path.is_file()]
    assert uploaded(channel, task, b"x.csv").endswith(".csv")


def test_an_upload_that_is_too_large_is_refused_with_a_reason_however_long_its_name_is() -> None:
    with manager(spill_quota=10_000) as backend, served(backend) as address, grpc.insecure_channel(address) as channel:
        task = backend.create_task(PLAN, backend.defaults, {}).id
        assert uploaded(channel, task, b"n" * 1_000_000 + b".csv", b"x" * 100_000) == "UPLOAD_TOO_LARGE"

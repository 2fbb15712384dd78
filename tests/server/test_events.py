"""The log of a server at level info: its events, and what no user can make it say."""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.executor.runtime.ceilings import Ceilings
from tidegate.executor.runtime.event_lines import LONGEST, log, refused, tell, without_secrets
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.address import beside
from tidegate.proto.encoding.flight_messages import SERVICE
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.server.access.tokens import Tokens
from tidegate.server.setup.log_lines import LogLines

from ..executor.fakes import FakeEngine, manager_of
from .fake_process import server_process
from .running import IDLE, await_waiter, manager, served

TOKEN = "alice-has-this-token-0001"
ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})

Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """The log's lines so far, as a server writes them, without their times."""
    caplog.set_level(logging.INFO, logger="tidegate")
    return lambda: [LogLines().format(record).partition(" tidegate.")[2] for record in caplog.records]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[TaskManager]:
    (tmp_path / "checkpoints").mkdir()
    with manager(FakeEngine(), checkpoint_root=tmp_path / "checkpoints", principals=True) as task_manager:
        yield task_manager


@pytest.fixture
def client(backend: TaskManager, tmp_path: Path) -> Iterator[tidegate.Client]:
    (tmp_path / "tokens").write_text(f"alice {TOKEN}")
    (tmp_path / "tokens").chmod(0o600)
    with (
        served(backend, tokens=Tokens(tmp_path / "tokens")) as address,
        tidegate.connect(address, token=TOKEN) as opened,
    ):
        yield opened


def events(lines: list[str]) -> list[str]:
    return re.findall(r"events: event=(\w+)", "\n".join(lines))


def until(lines: Lines, event: str) -> str:
    """The line of an event that comes once a server has noticed something."""
    deadline = time.monotonic() + 30
    while not (matching := [line for line in lines() if f"event={event}" in line]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return matching[0]


def test_a_tasks_life_is_a_line_for_each_event_and_none_for_an_epoch(client: tidegate.Client, lines: Lines) -> None:
    task = client.create_task(b"plan")
    for number in range(4):
        task.run_epoch({"a": ROWS}, checkpoint=number == 3)
    task.no_more_splits()
    task.delete()
    common = f"task={task.id} principal=alice"
    assert lines() == [
        f"events: event=task_created {common} mode=per_epoch determinism=strict channels=1 executor=local",
        f"events: event=checkpoint_taken {common} epoch=4 checkpoint={task.id}/epoch-4 bytes=0",
        f"events: event=task_finished {common} epochs=4 rows=8",
        f"events: event=task_deleted {common} why=asked state=finished",
    ]


def test_a_task_that_is_cancelled_says_why(client: tidegate.Client, backend: TaskManager, lines: Lines) -> None:
    asked, closed = client.create_task(b"plan"), client.create_task(b"plan")
    asked.cancel()
    backend.stop()
    (first, second) = [line for line in lines() if "event=task_cancelled" in line]
    assert first.endswith(f"task={asked.id} principal=alice why=asked state=running")
    assert second.endswith(f"task={closed.id} principal=alice why=closed state=running")


def test_a_task_that_fails_says_why(client: tidegate.Client, lines: Lines) -> None:
    task = client.create_task(b"plan")
    with pytest.raises(tidegate.TidegateError):
        task.run_epoch({"a": pa.table({"x": pa.array([-1], pa.int64())})})
    line = until(lines, "task_failed")
    assert f"task={task.id} principal=alice epoch=1 reason=" in line
    assert "message=" in line


def test_an_epoch_that_is_skipped_is_a_warning(client: tidegate.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with client.create_task(b"plan", on_error="skip_epoch") as task, pytest.raises(tidegate.EpochError):
        task.run_epoch({"a": pa.table({"x": pa.array([-1], pa.int64())})}).table()
    (skipped,) = [record for record in caplog.records if "event=epoch_skipped" in record.message]
    assert skipped.levelname == "WARNING"


def test_a_plan_that_is_refused_is_told_with_its_reason(lines: Lines, tmp_path: Path) -> None:
    with manager(PlanEngine([], tmp_path)) as backend, served(backend) as address, tidegate.connect(address) as client:
        with pytest.raises(tidegate.PlanError):
            client.create_task("SELECT 1\nevent=task_created task=forged")
        (line,) = lines()
    refused = 'events: event=plan_refused problems=1 reason=MALFORMED message="this is not a Substrait plan: this'
    assert line.startswith(refused)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"memory_limit": 1}, "INVALID_REQUEST"),
        ({"channels": 2, "determinism": "relaxed"}, "UNSUPPORTED_CHANNELS"),
        ({"time_zone": "Mars/Phobos"}, "INVALID_REQUEST"),
        ({"restore": "never taken"}, "CHECKPOINT_ID"),
    ],
    ids=str,
)
def test_an_option_that_is_refused_is_told_with_its_reason(
    client: tidegate.Client, lines: Lines, options: dict[str, Any], reason: str
) -> None:
    """By whoever refuses it: the reading of the request, the check of options, the making of the task."""
    with pytest.raises(tidegate.TidegateError):
        client.create_task(b"plan", **options)
    (line,) = lines()
    assert line.startswith(f"events: event=task_refused principal=alice reason={reason} message=")


def test_a_call_that_a_full_disk_refuses_is_a_warning(
    client: tidegate.Client, backend: TaskManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    task = client.create_task(b"plan", queue_bytes=1)
    shutil.rmtree(backend.folder)
    backend.folder.touch()  # a file, so that none can be written below it
    with pytest.raises(tidegate.Exhausted) as refused:
        task.add_split("a", ROWS)
    backend.folder.unlink()
    assert refused.value.reason == "SPILL_FAILED"
    (line,) = [record.message for record in caplog.records if "event=spill_failed" in record.message]
    said = f"event=spill_failed task={task.id} principal=alice call=AddSplits reason=SPILL_FAILED message="
    assert line.startswith(said)


def test_a_task_beyond_the_most_is_told_with_its_reason(lines: Lines) -> None:
    with (
        closing(manager_of(FakeEngine(), threads=1, ceilings=Ceilings(tasks=1))) as backend,
        served(backend) as address,
        tidegate.connect(address) as client,
        client.create_task(b"plan"),
    ):
        with pytest.raises(tidegate.TidegateError) as full:
            client.create_task(b"plan")
        assert events(lines()) == ["task_created", "task_refused"]
        assert f"reason={full.value.reason}" in lines()[-1]


def test_a_task_that_was_left_idle_says_so(client: tidegate.Client, lines: Lines) -> None:
    client.create_task(b"plan", idle_seconds=0.2)
    assert until(lines, "task_deleted").endswith("why=idle state=running")


@pytest.mark.parametrize("call", ["Next", "Results", "DoGet"])
def test_a_client_that_vanishes_before_its_answer_is_told_with_its_task(
    client: tidegate.Client, lines: Lines, call: str
) -> None:
    task = client.create_task(b"plan", idle_seconds=IDLE if call == "Next" else 0.0).id
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    address = str(client.address)
    if call == "DoGet":
        address = beside(address, client.capabilities().flight) or ""
    with grpc.insecure_channel(address) as channel:
        if call == "Next":
            asked = pb.NextRequest(task=task, wait_ms=60_000, **{"from": pb.Cursor(epoch=1)})
            poll = channel.unary_unary("/tidegate.v1.TaskService/Next")
            waiting = poll.future(asked.SerializeToString(), metadata=metadata)
            await_waiter(client.tasks)
            assert not waiting.done()
        elif call == "Results":
            asked = pb.ResultsRequest(task=task, **{"from": pb.Cursor(epoch=1)})
            next(channel.unary_stream("/tidegate.v1.TaskService/Results")(asked.SerializeToString(), metadata=metadata))
        else:
            ticket = f'{{"task": "{task}", "epoch": 1}}'.encode()
            answers = channel.unary_stream(f"/{SERVICE}/DoGet")(
                b"\x0a" + bytes([len(ticket)]) + ticket, metadata=metadata
            )
            next(answers)  # the schema
    assert until(lines, "client_vanished").endswith(f"task={task} principal=alice call={call}")


def test_a_client_that_leaves_in_order_is_no_event(client: tidegate.Client, lines: Lines) -> None:
    with client.create_task(b"plan") as task:
        task.run_epoch({"a": ROWS})
        large = [pa.table({"x": range(100_000)})] * 20
        assert task.run_epoch({"a": large}).table().num_rows == 2_000_000
    client.close()
    time.sleep(0.3)
    assert events(lines()) == ["task_created", "task_deleted"]


NASTY = [
    "a\n2026-01-01 INFO tidegate.events: event=task_failed",
    'a" event=forged x="',
    "a\r\x1b[2Jb\x00",
    "a\u2028event=forged\x85b",
    "two words=three",
    'back\\slash"',
]


@pytest.mark.parametrize("text", NASTY)
def test_what_users_write_stays_inside_of_its_value(text: str, lines: Lines) -> None:
    tell("task_failed", {"message": text})
    log.warning("a message with %s", text)
    (line, other) = lines()
    assert len(line.splitlines()) == 1
    assert re.fullmatch(r'events: event=task_failed message="(?:[^"\\\x00-\x1f]|\\.)*"', line, re.ASCII)
    first, *more = other.splitlines()
    assert first.startswith("events: a message with")
    assert all(line.startswith("  | ") for line in more)


def test_a_traceback_cannot_begin_a_line_as_a_record_does() -> None:
    try:
        raise ValueError("x\n2026-01-01 00:00:00 INFO tidegate.events: event=task_created")
    except ValueError as error:
        record = logging.LogRecord("tidegate", logging.ERROR, "", 0, "failed", (), (ValueError, error, None))
    _, *more = LogLines().format(record).splitlines()
    assert more
    assert all(line.startswith("  | ") for line in more)


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("no file s3://key:secret@bucket/a.parquet", "no file s3://...@bucket/a.parquet"),
        ("'https://host/a.parquet?sig=secret&x=1' is gone", "'https://host/a.parquet?...' is gone"),
        ("is it a file? or not", "is it a file? or not"),
    ],
)
def test_credentials_in_urls_are_left_out(sentence: str, shown: str) -> None:
    assert without_secrets(sentence) == shown


def test_a_server_with_default_options_logs_a_failed_task_and_no_good_epoch(tmp_path: Path) -> None:
    plan = sub.read_named_table("numbers", {"n": sub.i64}).to_plan()
    (tmp_path / "bad.parquet").write_bytes(b"no Parquet")
    command = ("tidegate.server.cli", "serve", "--listen=127.0.0.1:0", "--no-flight", f"--root={tmp_path}")
    with (tmp_path / "log").open("w") as log_file, server_process(*command, stderr=log_file) as server:
        with tidegate.connect(server.address) as client, client.create_task(plan) as task:
            assert task.run_epoch({"numbers": pa.table({"n": [1]})}).rows == 1
            with pytest.raises(tidegate.TaskFailed):
                task.run_epoch({"numbers": tmp_path / "bad.parquet"})
        assert server.end() == 0
    written = (tmp_path / "log").read_text()
    assert events(written.splitlines()) == ["task_created", "task_failed", "task_deleted"]
    assert "epoch=2 reason=FILE_UNREADABLE" in written
    assert all(" tidegate." in line for line in written.splitlines())


def test_a_long_sentence_is_cut(lines: Lines) -> None:
    refused("", tidegate.InvalidRequest("x" * 5000))
    (line,) = lines()
    assert line == f"events: event=task_refused reason=INVALID_REQUEST message={'x' * LONGEST}"

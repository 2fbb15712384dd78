"""The bytes that a durable task may have in the data folder: rows and records, until they are acknowledged."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.executor.journal import kept_reader
from tidegate.executor.journal.journal_database import JournalDatabase
from tidegate.proto.errors import Exhausted, Unavailable
from tidegate.proto.values import AddRequest, Cursor, Mode, Seal, Transaction

from ..fakes import Client, FakeEngine, rows
from .restarts import Restarts

LIMITS = {"queue_bytes": 40_000, "spill_quota": 20_000}
SMALL = range(2_000)
"""Rows of 16,000 bytes: three such splits have room in both options together."""


@pytest.fixture(params=["blobs", "files"])
def service(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Restarts]:
    if request.param == "files":
        monkeypatch.setattr(kept_reader, "SMALL_BYTES", 0)
    with Restarts(tmp_path) as restarts:
        restarts.engine.early = True
        restarts.engine.function = lambda batch: batch.slice(0, 0)
        yield restarts


def add(task: Client) -> None:
    """Add a split once its task has run those before, which are kept nevertheless."""
    deadline = time.monotonic() + 20
    while True:
        try:
            task.add(*SMALL)
        except Exhausted as full:
            if "data folder" in full.message or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def refusal(call: Callable[[], None]) -> Exhausted:
    with pytest.raises(
        Exhausted, match="bytes in the data folder that are not acknowledged, and queue_bytes and spill_quota"
    ) as refused:
        call()
    return refused.value


def records(service: Restarts) -> int:
    service.durable.flush()
    with closing(sqlite3.connect(f"file:{service.data / 'journal.sqlite'}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])


def test_a_task_keeps_no_more_rows_than_its_queue_and_its_quota_until_it_acknowledges(service: Restarts) -> None:
    task = service.create(**LIMITS)
    for _ in range(3):
        add(task)
    assert refusal(lambda: add(task)).reason == "WAITS_FOR_SEAL"
    task.seal()
    assert refusal(lambda: add(task)).reason == "OUTPUT_UNREAD"
    task.epoch(1)
    service.manager.acknowledge(task.id, Cursor(2))
    for _ in range(3):
        add(task)


def test_kept_rows_count_after_a_restart_until_they_are_acknowledged(service: Restarts) -> None:
    task = service.create(**LIMITS)
    for _ in range(3):
        add(task)
    task = service.restart(task)
    assert refusal(lambda: add(task)).reason == "WAITS_FOR_SEAL"
    task.seal()
    task.epoch(1)
    service.manager.acknowledge(task.id, Cursor(2))
    service.durable.flush()
    task = service.restart(task)
    add(task)


def test_a_split_that_is_refused_leaves_its_room_to_others(service: Restarts) -> None:
    task = service.create(**LIMITS)
    for _ in range(20):
        with pytest.raises(Exhausted):
            task.add(*range(10_000))
    for _ in range(3):
        add(task)


def test_transactions_without_splits_take_room_too(service: Restarts) -> None:
    task = service.create(**{**LIMITS, "queue_bytes": 1_000})

    def commit() -> None:
        for version in range(1, 1_000):
            named = Transaction(application="x" * 200, version=version)
            service.manager.transact(task.id, named, AddRequest(splits=()))

    assert refusal(commit).reason == "WAITS_FOR_SEAL"
    assert records(service) < 200


def test_a_continuous_task_takes_checkpoints_before_its_rows_are_many(service: Restarts) -> None:
    task = service.create(mode=Mode.CONTINUOUS, checkpoint_epochs=0, checkpoint_seconds=0.0, **LIMITS)

    for epoch in range(1, 12):
        add(task)
        task.seal()
        task.epoch(epoch)
        service.manager.acknowledge(task.id, Cursor(epoch + 1))
        service.settle()
    assert len(service.durable.checkpoints.epochs(task.id)) == 2
    assert records(service) < 22


def test_a_call_that_changes_nothing_makes_no_record(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.end("a", a=3)
    before = records(service)
    for _ in range(20):
        task.end("a", a=3)
        task.end("a")
    assert records(service) == before
    task.end()
    assert records(service) == before + 1
    task.end()
    assert records(service) == before + 1


def test_a_checkpoint_that_is_requested_again_makes_no_record(tmp_path: Path) -> None:
    with Restarts(tmp_path, checkpoints=tmp_path / "checkpoints") as service:
        task = service.create()
        service.manager.request_barrier(task.id, None, Seal(through={"a": 2}, checkpoint="one"))
        before = records(service)
        for _ in range(20):
            service.manager.request_barrier(task.id, 1, Seal(checkpoint="one"))
        assert records(service) == before


def test_a_task_that_is_refused_leaves_no_rows_of_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    def fail(*_: object) -> None:
        raise full

    with Restarts(tmp_path, FakeEngine(static=("s",))) as restarts:
        with monkeypatch.context() as disk:
            disk.setattr(JournalDatabase, "commit", fail)
            for attempt in (1, 2, 3):
                with pytest.raises(Unavailable):
                    restarts.create({"s": [rows(*range(20_000 + attempt))]})
        restarts.create()
        restarts.settle()
        restarts.durable.close()  # waits until the files are gone
        assert list((restarts.data / "rows").iterdir()) == []

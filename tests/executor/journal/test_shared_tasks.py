"""Readers that share a durable task ask for its deletion, each once. The service deletes it when all have asked, also
if it is started again meanwhile.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.executor.journal.journal_database import JournalDatabase
from tidegate.proto.errors import InvalidRequest, NotFound, TaskFailed, Unavailable
from tidegate.proto.values import Cursor, Reader

from ...searching import tries
from ..fakes import POISON, Client
from .restarts import Restarts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        yield restarts


def leave(service: Restarts, task: Client, number: int, count: int) -> None:
    service.manager.delete_task(task.id, Reader(number, count))


def is_there(service: Restarts, task: Client) -> bool:
    try:
        service.manager.get_task(task.id)
    except NotFound:
        return False
    return True


def run(service: Restarts, task: Client, epoch: int) -> None:
    """Run and acknowledge an epoch, so that the journal lets go of all records before it."""
    task.add(epoch)
    task.seal(epoch)
    assert task.epoch(epoch) == [epoch]
    service.manager.acknowledge(task.id, Cursor(epoch + 1))
    service.settle()


EVENTS = st.sampled_from(["restart", "run", "leave", "leave", "leave again"])


@settings(max_examples=tries(15))
@given(readers=st.permutations(range(1, 6)), events=st.lists(EVENTS, max_size=12))
def test_a_task_is_deleted_once_its_last_reader_has_asked(readers: list[int], events: list[str]) -> None:
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="tidegate-test-", dir=memory if memory.is_dir() else None)
    with Restarts(Path(folder)) as service:
        task, *left, last = service.create(), *readers
        epoch = 1
        for event in [*events, *("leave" for _ in left)]:
            match event:
                case "restart":
                    task = service.restart(task)
                case "run":
                    run(service, task, epoch)
                    epoch += 1
                case "leave" if left:
                    leave(service, task, left.pop(0), 5)
                case "leave again" if len(left) < 4:
                    leave(service, task, readers[0], 5)
            assert is_there(service, task)
        leave(service, task, last, 5)
        assert not is_there(service, task)
        service.restart()
        assert not is_there(service, task)


def test_a_task_that_has_failed_knows_its_readers_when_it_goes_on(service: Restarts) -> None:
    task = service.create()
    leave(service, task, 1, 2)
    task.add(POISON)
    task.seal()
    with pytest.raises(TaskFailed):
        task.epoch(1)
    service.manager.recover_task(task.id, [("a", 1)])
    assert is_there(service, task)
    leave(service, task, 2, 2)
    assert not is_there(service, task)


def test_a_reader_whose_call_found_a_full_disk_calls_again(service: Restarts, monkeypatch: pytest.MonkeyPatch) -> None:
    task = service.create()
    full = sqlite3.OperationalError("disk full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    def fail(*_: object) -> None:
        raise full

    with monkeypatch.context() as disk:
        disk.setattr(JournalDatabase, "commit", fail)
        for _ in range(2):
            with pytest.raises(Unavailable, match="repeat the call"):
                leave(service, task, 1, 2)
    leave(service, task, 1, 2)
    task = service.restart(task)
    leave(service, task, 2, 2)
    assert not is_there(service, task)


def test_so_many_readers_may_share_a_task_and_no_more(service: Restarts) -> None:
    task = service.create()
    leave(service, task, 10_000, 10_000)
    with pytest.raises(InvalidRequest, match="readers=10001 must be at most 10,000"):
        leave(service, task, 10_000, 10_001)

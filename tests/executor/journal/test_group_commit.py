"""Commits of many callers: those that wait together share one, and each learns what became of its own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

import pytest

from tidegate.executor.journal.group_commit import Journal
from tidegate.executor.journal.journal_database import JournalDatabase, Statement
from tidegate.proto.errors import Unavailable

MANY = 200


class Disk:
    """A database that commits once it is allowed to. `commits` has the statements of each commit."""

    def __init__(self) -> None:
        self.commits: list[list[Statement]] = []
        self.begun = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.error: Exception | None = None

    def commit(self, statements: Iterable[Statement]) -> None:
        self.commits.append(list(statements))
        self.begun.release()
        assert self.allowed.acquire(timeout=60)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def journal(disk: Disk) -> Iterator[Journal]:
    journal = Journal(cast("JournalDatabase", disk))
    yield journal
    for _ in range(MANY):
        disk.allowed.release()
    journal.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MANY + 1) as threads:
        yield threads


def recorded(journal: Journal, number: int, appended: threading.Semaphore) -> None:
    batch = journal.append([("a record", (number,))])
    appended.release()
    journal.wait(batch)


def waiting(journal: Journal, threads: ThreadPoolExecutor, numbers: Iterable[int]) -> list[Future[None]]:
    """Callers that wait for their records, all of which are appended."""
    appended = threading.Semaphore(0)
    callers = [threads.submit(recorded, journal, number, appended) for number in numbers]
    for _ in callers:
        assert appended.acquire(timeout=60)
    return callers


def test_all_callers_during_a_commit_share_the_next_one(
    journal: Journal, disk: Disk, threads: ThreadPoolExecutor
) -> None:
    first = waiting(journal, threads, [0])
    assert disk.begun.acquire(timeout=60)
    others = waiting(journal, threads, range(1, MANY + 1))
    disk.allowed.release()
    assert first[0].result(60) is None
    assert disk.begun.acquire(timeout=60)
    assert not any(caller.done() for caller in others)
    disk.allowed.release()
    assert [caller.result(60) for caller in others] == [None] * MANY
    assert [len(statements) for statements in disk.commits] == [1, MANY]


def no_room(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("no room")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (no_room(sqlite3.SQLITE_FULL), True),
        (no_room(sqlite3.SQLITE_IOERR), False),
        (MemoryError("no room"), False),
    ],
    ids=["full", "broken", "not of the database"],
)
def test_a_commit_that_fails_is_told_to_those_who_wait_for_it_and_for_the_next_one(
    journal: Journal, disk: Disk, threads: ThreadPoolExecutor, error: Exception, full: bool
) -> None:
    disk.error = error
    first = waiting(journal, threads, [0])
    assert disk.begun.acquire(timeout=60)
    others = waiting(journal, threads, range(1, 10))
    disk.allowed.release(MANY)  # who comes to wait after the failure has a commit of its own
    for caller in (*first, *others):
        with pytest.raises(Unavailable, match="no room"):
            caller.result(60)
    disk.error = None
    again = threads.submit(journal.check)
    if full:
        assert again.result(60) is None
    else:
        with pytest.raises(Unavailable, match="no room"):
            again.result(60)


def test_what_nobody_waits_for_is_committed_soon(journal: Journal, disk: Disk) -> None:
    for number in range(3):
        journal.append([("lazy", (number,))])
        assert disk.begun.acquire(timeout=60)
        disk.allowed.release()
    assert disk.commits == [[("lazy", (number,))] for number in range(3)]


def test_work_behind_a_commit_that_fails_ends_no_later_commit(
    journal: Journal, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("cannot schedule new futures after shutdown")

    disk.allowed.release(2)
    journal.wait(journal.append([("first", ())], fail))
    journal.wait(journal.append([("second", ())]))
    assert [[sql for sql, _ in statements] for statements in disk.commits] == [["first"], ["second"]]
    assert "work behind a commit has failed" in caplog.text

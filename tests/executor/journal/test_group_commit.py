"""Commits of many callers: those that wait together share one, and each learns what became of its own."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

import pytest

from tidegate.executor.journal import group_commit
from tidegate.executor.journal.group_commit import Journal
from tidegate.executor.journal.journal_database import JournalDatabase, Statement
from tidegate.proto.errors import Unavailable

from ...waiting import until

MANY = 200


class Disk:
    """A database that commits once it is allowed to. `commits` has the statements of each commit, and `threads` the
    thread that made it.
    """

    def __init__(self) -> None:
        self.commits: list[list[Statement]] = []
        self.threads: list[threading.Thread] = []
        self.begun = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.error: BaseException | None = None

    def commit(self, statements: Iterable[Statement]) -> None:
        self.commits.append(list(statements))
        self.threads.append(threading.current_thread())
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


def test_a_caller_makes_the_commit_itself_if_nobody_else_commits(
    journal: Journal, disk: Disk, threads: ThreadPoolExecutor
) -> None:
    def call(number: int) -> threading.Thread:
        journal.wait(journal.append([("a record", (number,))]))
        return threading.current_thread()

    disk.allowed.release(3)
    assert [threads.submit(call, number).result(60) for number in range(3)] == disk.threads


def test_no_commit_is_made_on_the_main_thread(journal: Journal, disk: Disk) -> None:
    """A handler of a signal may raise there just behind the commit, and nobody would know that it was made."""
    assert threading.current_thread() is threading.main_thread()
    disk.allowed.release(2)
    for number in range(2):
        journal.wait(journal.append([("a record", (number,))]))
    assert threading.main_thread() not in disk.threads


def test_what_may_be_late_is_committed_soon_and_at_a_close_at_the_latest(
    journal: Journal, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.allowed.release(2)
    journal.later(lambda: journal.append([("late", (1,))]))
    assert disk.begun.acquire(timeout=60)
    monkeypatch.setattr(group_commit, "LAZY_SECONDS", 3_600.0)
    journal.later(lambda: journal.append([("late", (2,))]))
    journal.close()
    assert disk.commits == [[("late", (1,))], [("late", (2,))]]


def test_what_may_be_late_is_committed_though_others_commit_all_the_time(journal: Journal, disk: Disk) -> None:
    disk.allowed.release(1_000_000)
    journal.later(lambda: journal.append([("late", ())]))
    until(lambda: journal.wait(journal.append([("a record", ())])) or ("late", ()) in itertools.chain(*disk.commits))


def test_a_caller_who_is_interrupted_in_a_commit_ends_the_journal(
    journal: Journal, disk: Disk, threads: ThreadPoolExecutor
) -> None:
    """Nobody knows whether the disk has it."""
    disk.error = SystemExit("interrupted")
    disk.allowed.release()
    with pytest.raises(SystemExit, match="interrupted"):
        threads.submit(lambda: journal.wait(journal.append([("a record", ())]))).result(60)
    with pytest.raises(Unavailable, match="has to be started again"):
        journal.wait(journal.append([("another", ())]))
    assert len(disk.commits) == 1


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


def test_an_acknowledgement_that_fails_ends_no_later_commit(
    journal: Journal, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise KeyError("a digest")

    disk.allowed.release(2)
    journal.later(fail)
    journal.later(lambda: cast("None", journal.append([("late", ())])))
    journal.append_late()
    for sql in ("first", "second"):
        journal.wait(journal.append([(sql, ())]))
    assert [sql for statements in disk.commits for sql, _ in statements] == ["late", "first", "second"]
    assert "an acknowledgement could not be recorded" in caplog.text

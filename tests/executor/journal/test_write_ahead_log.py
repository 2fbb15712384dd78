"""The check of SQLite's log: damage with commits behind it is seen, and what a loss of power leaves is no damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.journal.write_ahead_log import check_log
from tidegate.proto.errors import Refused

from .restarts import Restarts

HEADER, FRAME = 32, 24 + 4096
COMMITS = 12


def insert(connection: sqlite3.Connection, number: int, size: int = 300) -> None:
    connection.execute("INSERT INTO numbers VALUES (?, zeroblob(?))", (number, size))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database whose commits are all in its log: each is one row, the last one of several pages."""
    path = tmp_path_factory.mktemp("log") / "numbers"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers (number INTEGER, filler BLOB)")
        for number in range(COMMITS):
            insert(connection, number)
        insert(connection, COMMITS, 20_000)
        yield path


def log_of(database: Path) -> bytearray:
    return bytearray(database.with_name("numbers-wal").read_bytes())


def checked(log: bytes, folder: Path) -> tuple[bool, int]:
    (folder / "log").write_bytes(log)
    check = check_log(folder / "log")
    return check.damaged, check.read


def commits(log: bytes) -> list[int]:
    """The frames that end a commit, counted from 1."""
    starts = range(HEADER, len(log), FRAME)
    return [number for number, at in enumerate(starts, 1) if int.from_bytes(log[at + 4 : at + 8], "big")]


def rows_that_sqlite_reads(database: Path, log: bytes, folder: Path) -> int:
    folder.mkdir(exist_ok=True)
    (folder / "copy").write_bytes(database.read_bytes())
    (folder / "copy-wal").write_bytes(log)
    with closing(sqlite3.connect(folder / "copy")) as connection:
        return int(connection.execute("SELECT count(*) FROM numbers").fetchone()[0])


def test_a_whole_log_is_read_to_its_end(database: Path, tmp_path: Path) -> None:
    log = log_of(database)
    assert checked(log, tmp_path) == (False, (len(log) - HEADER) // FRAME)
    assert len(commits(log)) == COMMITS + 2


def test_sqlite_drops_the_commits_behind_a_damaged_frame_and_the_check_says_so(database: Path, tmp_path: Path) -> None:
    log = log_of(database)
    log[HEADER + 5 * FRAME + 100] ^= 1
    assert rows_that_sqlite_reads(database, log, tmp_path / "sqlite") < COMMITS
    assert checked(log, tmp_path) == (True, 5)


@given(data=st.data())
def test_any_changed_byte_before_the_last_two_commits_is_damage(
    database: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = log_of(database)
    changed = data.draw(st.integers(0, HEADER + commits(log)[-3] * FRAME - 1))
    log[changed] ^= data.draw(st.integers(1, 255))
    assert checked(log, tmp_path_factory.getbasetemp())[0]


@given(cut=st.integers(0))
def test_a_log_that_ends_anywhere_is_no_damage(
    database: Path, tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    log = log_of(database)
    assert not checked(log[: cut % (len(log) + 1)], tmp_path_factory.getbasetemp())[0]


@given(lost=st.sets(st.integers(0, 40)))
def test_a_last_commit_that_is_there_in_part_is_no_damage(
    database: Path, tmp_path_factory: pytest.TempPathFactory, lost: set[int]
) -> None:
    log = log_of(database)
    start = HEADER + commits(log)[-2] * FRAME
    for sector in lost:
        at = start + sector * 512
        log[at : at + 512] = bytes(len(log[at : at + 512]))
    damaged, read = checked(log, tmp_path_factory.getbasetemp())
    assert (damaged, read >= commits(log)[-2]) == (False, True)


def test_frames_of_before_the_log_began_again_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers (number INTEGER, filler BLOB)")
        for number in range(COMMITS):
            insert(connection, number)
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        insert(connection, COMMITS)
        log = log_of(path)
    damaged, read = checked(log, tmp_path)
    assert not damaged
    assert 0 < read < (len(log) - HEADER) // FRAME


def test_a_frame_that_is_written_while_the_log_is_read_is_no_damage(database: Path) -> None:
    log = log_of(database)
    at = HEADER + 5 * FRAME
    missing = log[:at] + bytes(FRAME) + log[at + FRAME :]
    reads = iter([missing, log])
    beside = SimpleNamespace(open=lambda _: BytesIO(next(reads)))
    assert not check_log(beside).damaged  # type: ignore[arg-type]


def test_no_log_and_an_empty_log_are_no_damage(tmp_path: Path) -> None:
    assert not check_log(tmp_path / "none").damaged
    assert checked(b"", tmp_path) == (False, 0)


def test_a_service_refuses_a_folder_whose_log_is_damaged_in_the_middle() -> None:
    with Restarts() as service:
        task = service.create()
        for value in range(5):
            task.add(value)
        service.kill()
        log = service.data / "journal.sqlite-wal"
        content = bytearray(log.read_bytes())
        content[HEADER + (commits(content)[-4] - 1) * FRAME + 200] ^= 1
        log.write_bytes(content)
        with pytest.raises(Refused, match="there are commits behind it") as raised:
            service.start()
        assert raised.value.reason == "DATA_DAMAGED"

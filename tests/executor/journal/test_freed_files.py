"""Files that no record names any more: other rows are written over them, and nobody who has their bytes sees that."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.journal.durable_tasks import DurableTasks
from tidegate.executor.journal.freed_files import FreedFiles
from tidegate.executor.journal.journal_database import JournalDatabase, Statement
from tidegate.executor.journal.kept_reader import Kept
from tidegate.executor.ledger.split_digest import RowsStream
from tidegate.proto.errors import TaskFailed
from tidegate.proto.values import Cursor, InlineSplit

from ..fakes import FakeEngine
from .restarts import Restarts

ROWS = 20_000


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[DurableTasks]:
    durable = DurableTasks(tmp_path / "data")
    yield durable
    durable.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "rows"


def stream(first: int, rows: int = ROWS) -> RowsStream:
    table = pa.table({"n": range(first, first + rows)})
    return RowsStream(InlineSplit(schema=table.schema, batches=tuple(table.to_batches())))


def free(durable: DurableTasks, kept: Kept) -> None:
    """Have no record name the bytes, and wait until their file is without a name."""
    durable.rows.release([kept.digest])
    for _ in range(2):  # what follows a commit is done before the next commit
        durable.flush()


def named(folder: Path, kept: Kept) -> Path:
    return folder / kept.digest.hex()


def values(kept: Kept) -> list[int]:
    rows = kept.rows()
    return pa.Table.from_batches(rows.read(0, rows.rows), rows.schema)["n"].to_pylist()


def test_rows_are_written_over_a_file_that_nothing_names(durable: DurableTasks, folder: Path) -> None:
    first = durable.rows.keep(stream(0))
    before = named(folder, first).stat().st_ino
    free(durable, first)
    second = durable.rows.keep(stream(7, ROWS + 100))
    assert [path.name for path in folder.iterdir()] == [second.digest.hex()]
    assert named(folder, second).stat().st_ino == before
    assert values(second) == [*range(7, ROWS + 107)]


def test_a_file_never_gets_shorter(durable: DurableTasks, folder: Path) -> None:
    """A process that has mapped it, such as `tidegate data check`, would be ended by the system."""
    first = durable.rows.keep(stream(0))
    size = named(folder, first).stat().st_size
    free(durable, first)
    second = durable.rows.keep(stream(0, ROWS - 100))
    assert values(second) == [*range(ROWS - 100)]
    assert [path.stat().st_size for path in folder.iterdir() if path.name.endswith(".temporary")] == [size]


def test_rows_that_somebody_has_read_stay_as_they_were(durable: DurableTasks, folder: Path) -> None:
    first = durable.rows.keep(stream(0))
    rows = first.rows()
    read = list(rows.read(0, rows.rows))
    free(durable, first)
    durable.rows.keep(stream(1_000_000))
    assert pa.Table.from_batches(read)["n"].to_pylist() == [*range(ROWS)]


def test_rows_of_a_row_wise_plan_are_not_read_from_their_file(tmp_path: Path) -> None:
    """So the file is written over once they are acknowledged."""
    with Restarts(tmp_path, FakeEngine(early=True)) as service:
        task = service.create()
        task.add(*range(ROWS))
        (path,) = (service.data / "rows").iterdir()
        with path.open("rb") as first:  # no other file gets its number
            for epoch in (1, 2):
                task.seal()
                assert len(task.epoch(epoch)) == ROWS
                task.manager.acknowledge(task.id, Cursor(epoch + 1))
                service.settle()
                task.add(*range(epoch, epoch + ROWS))
                (path,) = (service.data / "rows").iterdir()
                assert path.stat().st_ino == os.fstat(first.fileno()).st_ino


def test_a_clients_file_is_never_written_over(durable: DurableTasks, tmp_path: Path) -> None:
    upload = tmp_path / "upload"
    with upload.open("wb") as sink:
        stream(0).write(sink)
    content = upload.read_bytes()
    linked = durable.rows.keep_file(upload)
    same = durable.rows.keep(stream(0))
    assert same.digest == linked.digest
    for kept in (linked, same):
        free(durable, kept)
    durable.rows.keep(stream(1))
    assert upload.read_bytes() == content


def test_a_closed_service_leaves_no_freed_files(tmp_path: Path) -> None:
    durable = DurableTasks(tmp_path / "data")
    free(durable, durable.rows.keep(stream(0)))
    assert list((tmp_path / "data" / "rows").iterdir())
    durable.close()
    assert list((tmp_path / "data" / "rows").iterdir()) == []


def test_a_killed_service_leaves_files_that_are_in_nobodys_way(tmp_path: Path) -> None:
    """A folder from which rows are missing keeps all files at its start, those without a name, too."""
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(*range(ROWS))
        service.kill()
        for path in (service.data / "rows").iterdir():
            path.unlink()
        for number in (1, 2):
            (service.data / "rows" / f"{number}.temporary").write_bytes(b"left")
        service.start()
        task = service.attach(task)
        assert task.add(*range(ROWS, 3 * ROWS)).sequence == 2


def test_rows_that_are_missing_are_let_go_like_any_others(tmp_path: Path) -> None:
    """Their task alone has failed: it is acknowledged and deleted, and others go on."""
    with Restarts(tmp_path) as service:
        lost, deleted, other = (service.create() for _ in range(3))
        for number, task in enumerate((lost, deleted)):
            task.add(*range(number, ROWS))
            task.seal()
        service.kill()
        for path in (service.data / "rows").iterdir():
            path.unlink()
        service.start()
        lost, deleted, other = map(service.attach, (lost, deleted, other))
        for task in (lost, deleted):
            with pytest.raises(TaskFailed, match="cannot be read"):
                task.epoch(1)
        service.manager.recover_task(lost.id, [("a", 1)])
        assert lost.epoch(1) == []
        service.manager.acknowledge(lost.id, Cursor(2))
        service.settle()
        service.manager.delete_task(deleted.id)
        for task in (lost, other):
            task.add(1)
            assert task.epoch(task.seal()) == [1]


def test_the_journal_gets_the_room_of_freed_files_on_a_full_disk(
    durable: DurableTasks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(durable, durable.rows.keep(stream(0)))
    assert list(folder.iterdir())
    commit = JournalDatabase.commit

    def on_a_full_disk(database: JournalDatabase, statements: Iterable[Statement]) -> None:
        if list(folder.iterdir()):
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        commit(database, statements)

    monkeypatch.setattr(JournalDatabase, "commit", on_a_full_disk)
    durable.flush()
    assert list(folder.iterdir()) == []


@given(sizes=st.lists(st.integers(1, 100), max_size=8), wanted=st.integers(1, 120))
def test_the_largest_file_that_fits_is_written_over(sizes: list[int], wanted: int) -> None:
    limit = 250
    freed, there = FreedFiles(limit), list[int]()
    for number, size in enumerate(sizes):
        taken = freed.put(Path(f"{number}-{size}"), size)
        assert taken is (sum(there) + size <= limit)
        there += [size] * taken
    path = freed.take(wanted)
    best = max((size for size in there if size <= wanted), default=None)
    assert (None if path is None else int(path.name.split("-")[1])) == best
    assert len(freed.clear()) == len(there) - (path is not None)
    assert freed.clear() == []

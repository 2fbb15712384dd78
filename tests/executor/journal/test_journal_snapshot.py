"""Looks into a data folder that change nothing in it: where nothing may be written, and beside a service."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.journal import journal_database, journal_snapshot
from tidegate.executor.journal.inspection import DataInspection, TaskEntry, Verified
from tidegate.executor.journal.kept_reader import KeptReader
from tidegate.proto.errors import InvalidRequest, Refused
from tidegate.proto.values import Cursor

from .restarts import Restarts

NOBODY = 65_534


def look(folder: Path) -> tuple[list[TaskEntry], Verified]:
    inspection = DataInspection(folder)
    return inspection.tasks(), inspection.check()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user can find, too."""
    with tempfile.TemporaryDirectory(prefix="tidegate-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def leave_read_only(folder: Path) -> None:
    """Take the right to write from the user who reads the folder; root has it everywhere."""
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        path.chmod(0o555 if path.is_dir() else 0o444)


def by_another_process(call: Callable[[], object]) -> object:
    """The answer of a call, made in a process of a user without the rights of root."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            answer: object = call()
        except BaseException as error:  # noqa: BLE001  # the test shows it
            answer = repr(error)
        with os.fdopen(writes, "wb") as pipe:
            pipe.write(pickle.dumps(answer))
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        answer = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return answer


def begun(service: Restarts) -> None:
    """Two tasks, with rows in the journal and in a file, and an epoch that is acknowledged."""
    first, second = service.create(), service.create()
    for epoch in (1, 2):
        first.add(epoch, sequence=epoch)
        first.seal(epoch)
        first.epoch(epoch)
    service.manager.acknowledge(first.id, Cursor(2))
    second.add(*range(20_000))
    service.settle()


LEFT = ["closed", "killed", "killed, without its index"]


def left(service: Restarts, how: str) -> Path:
    """The folder as a service leaves it."""
    if how == "closed":
        service.manager.close()
        assert not (service.data / "journal.sqlite-wal").exists()
    else:
        service.kill()
        assert (service.data / "journal.sqlite-wal").stat().st_size
    if how.endswith("without its index"):
        (service.data / "journal.sqlite-shm").unlink()
    return service.data


@pytest.mark.parametrize("how", LEFT)
def test_a_folder_that_is_read_only_has_the_same_answers(shared: Path, how: str) -> None:
    with Restarts(shared) as service:
        begun(service)
        folder = left(service, how)
        shutil.copytree(folder, shared / "writable")
        expected = look(shared / "writable")
        assert (len(expected[0]), expected[1].problems) == (2, ())
        before = files(folder)
        leave_read_only(folder)
        assert by_another_process(lambda: look(folder)) == expected
        assert files(folder) == before


@pytest.mark.parametrize("how", ["closed", "killed, without its index"])
def test_nothing_in_the_folder_is_changed_where_no_service_runs(tmp_path: Path, how: str) -> None:
    with Restarts(tmp_path) as service:
        begun(service)
        folder = left(service, how)
        before = files(folder)
        entries, verified = look(folder)
        assert ([entry.sealed for entry in entries], verified.problems) == ([2, 0], ())
        assert files(folder) == before


def test_damage_in_a_folder_that_is_read_only_is_found(shared: Path) -> None:
    with Restarts(shared) as service:
        begun(service)
        folder = left(service, "killed, without its index")
        with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
            connection.execute("UPDATE records SET body = CAST(body || x'00' AS BLOB) WHERE position = 3")
        leave_read_only(folder)
        verified = by_another_process(lambda: DataInspection(folder).check())
        assert isinstance(verified, Verified)
        [problem] = verified.problems
        assert "record 3 of its task" in problem


def test_there_is_no_room_for_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Restarts(tmp_path) as service:
        begun(service)
        folder = left(service, "closed")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        with pytest.raises(InvalidRequest, match="set TMPDIR to a folder with room") as refused:
            DataInspection(folder).tasks()
        assert refused.value.reason == "DATA_FOLDER"


@pytest.mark.parametrize("part", ["", "rows", "rows/*", "checkpoints", "journal.sqlite", "journal.sqlite-wal"])
def test_what_another_user_may_not_read_is_named_and_not_called_damaged(shared: Path, part: str) -> None:
    with Restarts(shared) as service:
        begun(service)
        folder = left(service, "killed, without its index")
        (folder / "checkpoints").mkdir(exist_ok=True)
        leave_read_only(folder)
        [path] = folder.glob(part) if part else [folder]
        path.chmod(0)
        answer = by_another_process(lambda: DataInspection(folder).check())
        assert f"{path if part else folder / 'journal.sqlite'} cannot be read (Permission denied)" in str(answer)
        assert "run this as the user of the service" in str(answer)
        path.chmod(0o555)


def test_a_journal_that_another_program_holds_cannot_be_read_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_snapshot, "_BUSY_SECONDS", 0.0)
    with Restarts(tmp_path) as service:
        begun(service)
        folder = left(service, "killed")
        with closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            with pytest.raises(InvalidRequest, match=r"cannot be read now \(database is locked\)"):
                DataInspection(folder).tasks()


# Copies beside a service. Each of these tests takes the way of a folder that is read-only.


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_snapshot, "_has_index", lambda _: False)


@pytest.mark.usefixtures("copies")
@pytest.mark.parametrize("behind", ["journal.sqlite", "journal.sqlite-wal"])
def test_a_copy_is_made_again_if_the_log_is_begun_anew_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    """The service moves its log into the journal behind the copy of one file, and before that of the other."""
    with Restarts(tmp_path) as service:
        begun(service)
        task = service.create()
        copied: list[str] = []
        copy = shutil.copyfile

        def interrupted(source: Path, target: Path) -> None:
            copy(source, target)
            copied.append(source.name)
            if copied == ["journal.sqlite", "journal.sqlite-wal"][: 1 + (behind == "journal.sqlite-wal")]:
                with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection:
                    moved = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                assert moved[0] == 0
                task.add(1)

        monkeypatch.setattr(journal_snapshot.shutil, "copyfile", interrupted)
        [*_, entry] = DataInspection(service.data).tasks()
        assert entry.splits == 1
        assert copied.count("journal.sqlite") == 2


@pytest.mark.usefixtures("copies")
def test_a_service_that_ends_while_it_is_copied_leaves_all_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Restarts(tmp_path) as service:
        begun(service)
        copy = shutil.copyfile

        def interrupted(source: Path, target: Path) -> None:
            copy(source, target)
            service.manager.close()

        monkeypatch.setattr(journal_snapshot.shutil, "copyfile", interrupted)
        assert [entry.sealed for entry in DataInspection(service.data).tasks()] == [2, 0]


def test_rows_that_a_service_removes_and_keeps_anew_while_they_are_checked_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Restarts(tmp_path) as service:
        task, read, checked = service.create(), KeptReader.read, list[bytes]()
        task.add(*range(20_000))
        task.seal()
        task.epoch(1)

        def interrupted(reader: KeptReader, digest: bytes) -> pa.Buffer:
            checked.append(digest)
            if len(checked) > 1:
                return read(reader, digest)
            service.manager.acknowledge(task.id, Cursor(2))
            service.settle()
            try:
                return read(reader, digest)
            finally:
                task.add(*range(20_000))

        monkeypatch.setattr(KeptReader, "read", interrupted)
        assert DataInspection(service.data).check().problems == ()
        assert len(checked) == 2


@pytest.mark.usefixtures("copies")
def test_copies_beside_a_busy_service_are_whole_and_never_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_database, "_CHECKPOINT_PAGES", 8)
    with Restarts(tmp_path) as service:
        task, ended, answered = service.create(), threading.Event(), [0]

        def feed() -> None:
            epoch = 1
            while not ended.is_set():
                task.add(*range(500))
                task.seal(epoch)
                answered.append(epoch)
                task.epoch(epoch)
                service.manager.acknowledge(task.id, Cursor(epoch + 1))
                epoch += 1

        feeding = threading.Thread(target=feed)
        feeding.start()
        seen = [0]
        try:
            for _ in range(30):
                before = answered[-1]
                try:
                    entries, verified = look(service.data)
                except Refused:  # the service was faster each time
                    continue
                assert verified.problems == ()
                assert entries[0].sealed >= max(seen[-1], before)
                seen.append(entries[0].sealed)
        finally:
            ended.set()
            feeding.join()
        assert len(seen) > 5

"""The data folder as others may have left it: files, rights and owners."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
import signal
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.executor.journal import data_folder
from tidegate.executor.journal.durable_tasks import DurableTasks
from tidegate.executor.journal.inspection import DataInspection
from tidegate.executor.journal.kept_reader import KeptReader
from tidegate.executor.journal.records import with_checksum
from tidegate.executor.ledger.split_digest import bytes_digest
from tidegate.proto.errors import Exhausted, InvalidRequest, Refused, TaskFailed, Unavailable
from tidegate.proto.tidegate.v1 import journal_pb2 as pb
from tidegate.proto.values import TaskPhase
from tidegate.server.cli.text_table import text_table

from .restarts import Restarts


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    rows = tmp_path / "data" / "rows"
    rows.mkdir(parents=True)
    names = ("thesis.odt", "0" * 31, "é" * 32, "journal")
    for name in names:
        (rows / name).write_text("mine")
    DurableTasks(tmp_path / "data").close()
    assert sorted(path.name for path in rows.iterdir()) == sorted(names)


def test_only_its_user_may_read_what_is_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir(mode=0o755)
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(*range(20_000))
        private = [*service.data.glob("journal*"), service.data / "rows"]
        assert len(private) == 4
        assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in private} == {0}


@pytest.mark.parametrize("option", ["checkpoint_root", "spill_directory", "write_root"])
@pytest.mark.parametrize("part", ["checkpoints", "rows/of/mine"])
def test_no_other_folder_of_the_service_is_in_a_part_that_it_tidies(tmp_path: Path, option: str, part: str) -> None:
    (tmp_path / "data" / part).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with pytest.raises(InvalidRequest, match=option) as refused:
        tidegate.local(data=tmp_path / "data", **{option: tmp_path / "link" / part})
    assert refused.value.reason == "DATA_FOLDER"


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    if user == 0:
        os.chown(tmp_path, 12_345, -1)
    else:
        monkeypatch.setattr(data_folder.os, "geteuid", lambda: user + 1)
    with pytest.raises(InvalidRequest, match=r"belongs to user \d+, who could change tasks and rows") as refused:
        DurableTasks(tmp_path)
    assert refused.value.reason == "DATA_FOLDER"


def test_a_folder_that_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(InvalidRequest, match=r"every user may write to .*chmod o-w") as refused:
        DurableTasks(tmp_path)
    assert refused.value.reason == "DATA_FOLDER"


@pytest.mark.parametrize(
    "more",
    [
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM tasks; END",
        "CREATE VIEW v AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
        "CREATE TABLE more (n)",
    ],
)
def test_a_journal_with_more_than_its_tables_is_refused(tmp_path: Path, more: str) -> None:
    DurableTasks(tmp_path / "data").close()
    with closing(sqlite3.connect(tmp_path / "data" / "journal.sqlite")) as connection, connection:
        connection.execute(more)
    for look in (DurableTasks, lambda folder: DataInspection(folder).tasks()):
        with pytest.raises(Refused, match="has other tables than a journal") as refused:
            look(tmp_path / "data")
        assert refused.value.reason == "DATA_DAMAGED"


def test_a_folder_whose_file_of_the_owner_is_removed_still_belongs_to_its_service(tmp_path: Path) -> None:
    folder = data_folder.DataFolder(tmp_path)
    (tmp_path / "owner").unlink()
    with pytest.raises(Refused) as refused:
        data_folder.DataFolder(tmp_path)
    assert refused.value.reason == "DATA_IN_USE"
    folder.release()
    data_folder.DataFolder(tmp_path).release()


@pytest.mark.parametrize("other", ["none", "a copy", "a link", "another folder"])
def test_nothing_is_answered_once_the_journal_has_lost_its_name(tmp_path: Path, other: str) -> None:
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(1)
        if other == "another folder":
            service.data.rename(tmp_path / "moved")
        for name in ("journal.sqlite", "journal.sqlite-wal") if other != "another folder" else ():
            (service.data / name).rename(tmp_path / name)
            if other == "a copy":
                shutil.copy(tmp_path / name, service.data / name)
            if other == "a link":
                (service.data / name).symlink_to(tmp_path / name)
        with pytest.raises(Unavailable) as refused:
            task.add(2)
        assert refused.value.reason == "JOURNAL_FAILED"


def test_a_process_that_was_forked_does_not_hold_the_folder_of_one_that_was_killed(tmp_path: Path) -> None:
    folder = data_folder.DataFolder(tmp_path)
    lives, forked = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(forked, b"1")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(lives, 1)
        with pytest.raises(Refused):
            data_folder.DataFolder(tmp_path)
        folder.release()  # the system does this to a process that is killed
        data_folder.DataFolder(tmp_path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(lives)
        os.close(forked)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("other", ["pipe", "link"])
def test_kept_rows_that_are_no_regular_file_are_damage(tmp_path: Path, other: str) -> None:
    with Restarts(tmp_path) as service:
        service.create().add(*range(20_000))
        service.kill()
        [kept] = (service.data / "rows").iterdir()
        if other == "pipe":
            kept.unlink()
            os.mkfifo(kept)
        else:
            kept.rename(tmp_path / "elsewhere")
            kept.symlink_to(tmp_path / "elsewhere")
        [problem] = DataInspection(service.data).check().problems
        assert "not a regular file" in problem
        service.start()


def test_a_kept_file_that_a_full_disk_has_no_room_to_copy_is_not_called_damaged(tmp_path: Path) -> None:
    class FullElsewhere(LocalDisk):
        def link(self, old: Path, new: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    digest = bytes_digest(b"rows")
    (tmp_path / digest.hex()).write_bytes(b"rows")
    kept = KeptReader(lambda _: None, FullElsewhere(), tmp_path).known(digest)
    with pytest.raises(Exhausted, match=r"spill folder: .* No space left on device") as full:
        kept.link(tmp_path / "copy")
    assert full.value.reason == "SPILL_FAILED"


def test_a_table_on_the_terminal_has_no_control_characters() -> None:
    assert text_table([["a\x1b]0;x\x07", "é"], ["b\nc", "\u202e"]]) == "a\\x1b]0;x\\x07  é\nb\\nc           \\u202e"


def rewritten(service: Restarts, table: str, change: Callable[[Any], None]) -> None:
    """Change the first message in a table, and give it the checksum that belongs to it."""
    kind, number, message = ("task", 0, pb.Creation) if table == "tasks" else ("record", 1, pb.Change)
    with journal(service.data) as connection:
        (task,) = connection.execute("SELECT min(number) FROM tasks").fetchone()
        (body,) = connection.execute(f"SELECT body FROM {table} LIMIT 1").fetchone()
        value = message.FromString(body[8:])
        change(value)
        where = " WHERE task = ? AND position = 1" if table == "records" else " WHERE number = ?"
        connection.execute(f"UPDATE {table} SET body = ?{where}", (with_checksum(kind, task, number, value), task))


@contextmanager
def journal(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes the journal in a folder, as if the disk had."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
        yield connection


@pytest.mark.parametrize(
    "change",
    [
        lambda creation: setattr(creation.options, "mode", 99),
        lambda creation: setattr(creation.task, "state", 99),
        lambda creation: setattr(creation.task, "schema", b"none"),
        lambda creation: creation.Clear(),
    ],
    ids=["mode", "state", "schema", "nothing"],
)
def test_a_record_with_a_value_that_is_none_is_damage(tmp_path: Path, change: Callable[[Any], None]) -> None:
    with Restarts(tmp_path) as service:
        service.create()
        service.kill()
        rewritten(service, "tasks", change)
        for look in (DurableTasks, lambda folder: DataInspection(folder).tasks()):
            with pytest.raises(Refused, match=r"a value of task .* cannot be read") as refused:
                look(service.data)
            assert refused.value.reason == "DATA_DAMAGED"


def test_a_task_whose_changes_do_not_fit_together_fails_alone(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        odd, other = service.create(), service.create()
        for task in (odd, other):
            task.add(1)
            task.seal()
        service.kill()
        rewritten(service, "records", lambda record: setattr(record.splits[0], "source", "nobody"))
        service.start()
        assert service.attach(other).epoch(1) == [1]
        assert service.attach(odd).info().state is TaskPhase.FAILED


_FIRST = "(SELECT min(number) FROM tasks)"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("UPDATE tasks SET id = substr(id, 2) || 'x'", "is called"),
        (f"UPDATE tasks SET id = x'00' WHERE number = {_FIRST}", "is called"),
        (f"DELETE FROM tasks WHERE number = {_FIRST}", "which is not in it"),
        ("UPDATE records SET task = NULL", "which is not in it"),
        (f"UPDATE bases SET task = 7 WHERE task = {_FIRST}", "which is not in it"),
        (f"DELETE FROM bases WHERE task = {_FIRST}", "the start of the records of task '.*' is missing"),
    ],
    ids=["id", "id that is no text", "task", "records", "bases", "base"],
)
def test_rows_of_the_journal_that_have_lost_their_task_are_damage(tmp_path: Path, change: str, match: str) -> None:
    with Restarts(tmp_path) as service:
        for _ in range(2):
            service.create().add(1)
        service.kill()
        with journal(service.data) as connection:
            connection.execute(change)
        for look in (DurableTasks, lambda folder: DataInspection(folder).tasks()):
            with pytest.raises(Refused, match=match) as refused:
                look(service.data)
            assert refused.value.reason == "DATA_DAMAGED"
        assert any(re.search(match, problem) for problem in DataInspection(service.data).check().problems)


def test_tasks_whose_ids_are_exchanged_are_damage(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        one, two = service.create().id, service.create().id
        service.kill()
        with journal(service.data) as connection:
            for old, new in ((one, "x"), (two, one), ("x", two)):
                connection.execute("UPDATE tasks SET id = ? WHERE id = ?", (new, old))
        with pytest.raises(Refused, match=f"was made as '{one}' is called '{two}'"):
            DurableTasks(service.data)


def test_records_of_another_data_folder_are_damage(tmp_path: Path) -> None:
    with Restarts(tmp_path / "a") as one, Restarts(tmp_path / "b") as two:
        for service, value in ((one, 1), (two, 2)):
            service.create().add(value)
            service.kill()
        with journal(two.data) as connection:
            stolen = connection.execute("SELECT position, body FROM records").fetchall()
        with journal(one.data) as connection:
            connection.executemany("UPDATE records SET body = ?2 WHERE position = ?1", stolen)
        with pytest.raises(Refused, match=r"record 1 of its task .* differs from what was written"):
            DurableTasks(one.data)


def test_a_blob_that_is_no_bytes_is_damage_of_its_split(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(1)
        task.seal()
        service.kill()
        with journal(service.data) as connection:
            connection.execute("UPDATE blobs SET body = 'text'")
            connection.execute("INSERT INTO blobs VALUES (5, x'00')")
        service.start()
        with pytest.raises(TaskFailed) as failed:
            service.attach(task).epoch(1)
        assert failed.value.reason == "DATA_DAMAGED"


def journal_in_one_file(data: Path) -> tuple[Path, bytes]:
    """The journal of a service that was killed, without a log beside it: the file and its bytes."""
    path = data / "journal.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path, path.read_bytes()


def test_a_page_of_zeros_in_the_journal_is_damage(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        service.create().add(1)
        service.kill()
        path, whole = journal_in_one_file(service.data)
        reasons = set()
        for start in range(0, len(whole), 4096):
            path.write_bytes(whole[:start] + bytes(4096) + whole[start + 4096 :])
            with pytest.raises(Refused) as refused:
                DurableTasks(service.data)
            reasons.add(refused.value.reason)
        assert reasons == {"DATA_DAMAGED"}


def test_a_page_in_another_ones_place_loses_no_task(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(1)
        task.seal()
        service.kill()
        path, whole = journal_in_one_file(service.data)
        starts = range(0, len(whole), 4096)
        for lost, other in itertools.permutations(starts, 2):
            path.write_bytes(whole[:lost] + whole[other : other + 4096] + whole[lost + 4096 :])
            with suppress(Refused), closing(DurableTasks(service.data)) as durable:
                assert [(stored.identity, stored.sealed) for stored in durable.take_stored()] == [(task.id, 1)]


@pytest.mark.parametrize("part", ["rows", "journal.sqlite-wal"])
def test_a_part_of_the_folder_that_is_something_else_is_damage(tmp_path: Path, part: str) -> None:
    with Restarts(tmp_path) as service:
        service.create()
        service.kill()
        path = service.data / part
        if path.is_dir():
            path.rename(tmp_path / "moved")
            path.write_bytes(b"")
        else:
            path.unlink()
            path.mkdir()
        with pytest.raises(Refused, match=f"{part} cannot be read or written") as refused:
            DurableTasks(service.data)
        assert refused.value.reason == "DATA_DAMAGED"


@pytest.mark.parametrize("part", ["journal.sqlite", "journal.sqlite-wal"])
def test_a_link_in_place_of_the_journal_is_refused_at_the_start(tmp_path: Path, part: str) -> None:
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(1)
        service.kill()
        path, elsewhere = service.data / part, tmp_path / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        for look in (DurableTasks, DataInspection):
            with pytest.raises(Refused, match=f"{part} is a link to {elsewhere}") as refused:
                look(service.data)
            assert refused.value.reason == "DATA_DAMAGED"
        elsewhere.rename(path)
        service.start()
        assert service.attach(task).add(2).sequence == 2


def test_a_link_to_no_journal_is_refused_and_makes_none(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "journal.sqlite").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="is a link"):
        DurableTasks(tmp_path / "data")
    assert not (tmp_path / "elsewhere").exists()


def test_rows_beside_a_journal_without_tables_stay(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        service.create().add(*range(20_000))
        service.kill()
        for name in ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"):
            (service.data / name).unlink(missing_ok=True)
        for _ in range(2):
            with pytest.raises(Refused, match="there are kept rows beside it") as refused:
                DurableTasks(service.data)
            assert refused.value.reason == "DATA_DAMAGED"
        assert len([*(service.data / "rows").iterdir()]) == 1


def test_rows_of_others_stay_if_those_of_the_journal_are_lost(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        service.create().add(*range(20_000))
        service.kill()
        rows = service.data / "rows"
        [kept] = rows.iterdir()
        kept.rename(rows / ("0" * 32))
        DurableTasks(service.data).close()
        assert [path.name for path in rows.iterdir()] == ["0" * 32]


def test_rows_are_kept_beside_half_written_files_where_rows_of_the_journal_are_lost(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        service.create().add(*range(20_000))
        service.kill()
        rows = service.data / "rows"
        [kept] = rows.iterdir()
        kept.rename(rows / "1.temporary")
        service.start()
        assert service.create().add(*range(30_000)).sequence == 1

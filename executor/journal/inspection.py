"""Looks into a data folder, beside the service that owns it: lists its tasks, and verifies every byte of them.

Nothing in the folder is changed. The tasks are those of one moment, because SQLite gives a reader a snapshot.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...proto.errors import InvalidRequest, TidegateError
from ...proto.values import Cursor, Mode
from ..checkpoints.checkpoint_folder import CheckpointFolder, is_manifest
from ..checkpoints.disk import LocalDisk
from .data_folder import checkpoints_in, journal_in, rows_in
from .journal_database import (
    TaskRows,
    blob_in,
    blob_sizes,
    check_format,
    check_no_links,
    check_owners,
    check_whole,
    log_of,
    task_rows,
)
from .journal_snapshot import snapshot
from .kept_reader import KeptReader, digest_in
from .read_task import ReadTask, read_task

_ATTEMPTS: Final = 10
"""So often at most are bytes read that a service may just remove, and keep anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task in a data folder. `splits` and `record_bytes` are of its records, `kept_bytes` of its rows and uploads,
    `checkpoint_bytes` of the files of its checkpoints.
    """

    identity: str
    principal: str
    mode: Mode
    cancelled: bool
    sealed: int
    acknowledged: Cursor
    splits: int
    record_bytes: int
    kept_bytes: int
    checkpoints: int
    checkpoint_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a check. `problems` say what is damaged; there are none in a whole folder."""

    tasks: int
    records: int
    kept: int
    kept_bytes: int
    checkpoints: int
    problems: tuple[str, ...]


@contextmanager
def _may_read() -> Iterator[None]:
    """Say what to do about a file that this process may not read."""
    try:
        yield
    except PermissionError as error:
        raise InvalidRequest(
            f"{error.filename} cannot be read ({error.strerror}): run this as the user of the service",
            reason="DATA_FOLDER",
        ) from error


def _check_readable(file: Path) -> None:
    """Raise `PermissionError` if this process may not read the file. One that a service has just removed is none."""
    if not os.access(file, os.R_OK):
        with suppress(FileNotFoundError):
            file.open("rb").close()


def _files_in(folder: Path) -> Iterator[Path]:
    """All files below a folder. Raises `PermissionError` for a folder that this process may not read."""
    for entries, _, names in os.walk(folder, onerror=_refused):
        for name in names:
            yield Path(entries) / name


def _refused(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise error


class DataInspection:
    """A data folder, to look into. Raises `InvalidRequest` if there is none, or if this process may not read it, and
    `Refused` if it is damaged.
    """

    @_may_read()
    def __init__(self, folder: Path) -> None:
        self._journal, self._rows, self._checkpoints = journal_in(folder), rows_in(folder), checkpoints_in(folder)
        if not self._journal.is_file():
            raise InvalidRequest(f"{folder} is not a data folder: it has no {self._journal.name}", reason="DATA_FOLDER")
        check_no_links(self._journal)

    # -------------------------------------------------------------------------------------------------- listing

    @_may_read()
    def tasks(self) -> list[TaskEntry]:
        """The tasks, in the order in which they were made."""
        _check_readable(self._journal)
        check_whole(self._journal)
        with snapshot(self._journal) as connection:
            check_format(self._journal, connection)
            check_owners(connection)
            reader = self._reader(connection)
            sizes = self._sizes(connection)
            return [
                _entry(rows, read_task(rows, reader), sizes, LocalDisk().sizes(self._checkpoints / rows.identity))
                for rows in task_rows(connection)
            ]

    def _sizes(self, connection: sqlite3.Connection) -> dict[bytes, int]:
        """The sizes of all kept bytes, by their digests."""
        sizes = blob_sizes(connection)
        for name, size in LocalDisk().sizes(self._rows).items():
            if (digest := digest_in(name)) is not None:
                sizes[digest] = size
        return sizes

    # ------------------------------------------------------------------------------------------------- checking

    @_may_read()
    def check(self) -> Verified:
        """Read everything, and compare it with its checksums."""
        _check_readable(self._journal)
        for folder in (self._rows, self._checkpoints):
            for file in _files_in(folder):
                _check_readable(file)
        problems: list[str] = []
        with _noted(problems):
            check_whole(self._journal)
        with snapshot(self._journal) as connection:
            check_format(self._journal, connection)
            with _noted(problems):
                check_owners(connection)
            problems += _integrity(connection)
            tasks = self._read_all(connection, problems)
            uses = Counter(digest for task in tasks for digest in task.digests)
            sizes, lost = self._read_kept(connection, uses)
        if lost:
            lost = self._lost_for_good(lost)
        checkpoints = self._read_checkpoints(problems)
        return Verified(
            tasks=len(tasks),
            records=sum(len(task.records) for task in tasks),
            kept=len(sizes),
            kept_bytes=sum(sizes.values()),
            checkpoints=checkpoints,
            problems=(*problems, *lost.values()),
        )

    def _read_all(self, connection: sqlite3.Connection, problems: list[str]) -> list[ReadTask]:
        reader = self._reader(connection)
        tasks = []
        for rows in task_rows(connection):
            with _noted(problems, f"task {rows.identity}: "):
                tasks.append(read_task(rows, reader))
        return tasks

    def _read_kept(
        self, connection: sqlite3.Connection, digests: Iterable[bytes]
    ) -> tuple[dict[bytes, int], dict[bytes, str]]:
        """The sizes of the kept bytes that are whole, and the problems of the others."""
        reader = self._reader(connection)
        sizes: dict[bytes, int] = {}
        lost: dict[bytes, str] = {}
        for digest in digests:
            try:
                sizes[digest] = reader.read(digest).size
            except TidegateError as error:
                lost[digest] = error.message
        return sizes, lost

    def _read_checkpoints(self, problems: list[str]) -> int:
        """The number of checkpoints. A problem with one that a service has removed meanwhile is none."""
        count = 0
        for task in LocalDisk().folders(self._checkpoints):
            folder = CheckpointFolder(LocalDisk(), self._checkpoints / task)
            for name in folder.names():
                count += 1
                try:
                    manifest = folder.manifest(name)
                    for part in manifest.parts:
                        folder.table(manifest, part)
                except TidegateError as error:
                    if name in folder.names():
                        problems.append(f"task {task}: {error.message}")
        return count

    def _lost_for_good(self, lost: dict[bytes, str]) -> dict[bytes, str]:
        """The problems of bytes that the journal names, and that are damaged again and again. A service removes files
        while they are checked, writes over them, and may keep the same bytes anew.
        """
        for _ in range(_ATTEMPTS):
            before = self._changed_at()
            with snapshot(self._journal) as connection:
                named = {digest for task in self._read_all(connection, []) for digest in task.digests}
                _, lost = self._read_kept(connection, named & lost.keys())
            if not lost or self._changed_at() == before:
                break
        return lost

    def _changed_at(self) -> list[int]:
        """What differs once a service has written to the journal."""
        files = [file for file in (self._journal, log_of(self._journal)) if file.exists()]
        return [number for file in files for number in (file.stat().st_mtime_ns, file.stat().st_size)]

    def _reader(self, connection: sqlite3.Connection) -> KeptReader:
        return KeptReader(lambda digest: blob_in(connection, digest), LocalDisk(), self._rows)


def _entry(
    rows: TaskRows, task: ReadTask, sizes: Mapping[bytes, int], checkpoint_files: Mapping[str, int]
) -> TaskEntry:
    return TaskEntry(
        identity=rows.identity,
        principal=task.creation.principal,
        mode=task.creation.options.mode,
        cancelled=any(record.change.cancelled for record in task.records),
        sealed=task.sealed,
        acknowledged=task.acknowledged,
        splits=sum(len(record.change.splits) for record in task.records),
        record_bytes=len(rows.body) + sum(len(body) for _, body in rows.records),
        kept_bytes=sum(sizes.get(digest, 0) for digest in set(task.digests)),
        checkpoints=sum(map(is_manifest, checkpoint_files)),
        checkpoint_bytes=sum(checkpoint_files.values()),
    )


@contextmanager
def _noted(problems: list[str], of: str = "") -> Iterator[None]:
    """Add what a check raises to the problems."""
    try:
        yield
    except TidegateError as error:
        problems.append(f"{of}{error.message}")


def _integrity(connection: sqlite3.Connection) -> list[str]:
    """The problems that SQLite finds in its own structures."""
    answers = [answer for (answer,) in connection.execute("PRAGMA integrity_check")]
    return [] if answers == ["ok"] else [f"the journal is damaged: {answer}" for answer in answers]

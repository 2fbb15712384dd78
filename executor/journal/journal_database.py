"""The journal's tables, in SQLite: written by one connection, a transaction at a time.

| Table | A row |
|---|---|
| `tasks` | a task: how it was made |
| `bases` | the position where a task's records start |
| `cursors` | the cursor before which a task's output is acknowledged |
| `records` | a change of a task's ledger, at a position: a task's positions follow one another |
| `blobs` | rows that are kept by their digest |

Commits wait until the disk has them (`synchronous=FULL`). SQLite itself cuts a transaction off that was not completed;
`write_ahead_log` finds damage that SQLite would cut off as well.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from ...proto.errors import InvalidRequest, Refused
from .write_ahead_log import check_log

FORMAT: Final = 1
_APPLICATION: Final = 0x54647467  # "Tdtg"
_CHECKPOINT_PAGES: Final = 1_000
_BUSY_SECONDS: Final = 10.0
_TABLES: Final = (
    "CREATE TABLE tasks (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
    "CREATE TABLE bases (task INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE cursors (task INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE records (task INTEGER, position INTEGER, body BLOB NOT NULL, PRIMARY KEY (task, position))",
    "CREATE TABLE blobs (digest BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
)
_SCHEMA: Final = (
    *_TABLES,
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)

RESTORE: Final = (
    "put back a backup of the whole data folder, or start with a new folder, in which clients make their tasks again "
    "(`tidegate data check` lists all that is damaged)"
)
"""The advice for a damaged folder, without which no service can start."""

UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
"""The errors of a read of a damaged database. SQLite's messages repeat names in it, which may be no text any more."""
_NOT_WRITABLE: Final = (
    "cannot be opened for writing ({}): name another data folder, or give the service the right to write there"
)

Statement: TypeAlias = tuple[str, tuple[object, ...]]
"""SQL with its parameters."""


def insert_task(number: int, identity: str, body: bytes) -> Statement:
    return "INSERT INTO tasks VALUES (?, ?, ?)", (number, identity, body)


def set_task(number: int, body: bytes) -> Statement:
    return "UPDATE tasks SET body = ? WHERE number = ?", (body, number)


def set_base(task: int, body: bytes) -> Statement:
    return "INSERT OR REPLACE INTO bases VALUES (?, ?)", (task, body)


def set_cursor(task: int, body: bytes) -> Statement:
    return "INSERT OR REPLACE INTO cursors VALUES (?, ?)", (task, body)


def insert_record(task: int, position: int, body: bytes) -> Statement:
    return "INSERT INTO records VALUES (?, ?, ?)", (task, position, body)


def cut_records(task: int, through: int) -> Statement:
    return "DELETE FROM records WHERE task = ? AND position <= ?", (task, through)


def insert_blob(digest: bytes, body: bytes) -> Statement:
    return "INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, body)


def delete_blob(digest: bytes) -> Statement:
    return "DELETE FROM blobs WHERE digest = ?", (digest,)


def delete_task(number: int) -> tuple[Statement, ...]:
    return (
        ("DELETE FROM records WHERE task = ?", (number,)),
        ("DELETE FROM cursors WHERE task = ?", (number,)),
        ("DELETE FROM bases WHERE task = ?", (number,)),
        ("DELETE FROM tasks WHERE number = ?", (number,)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRows:
    """The rows of one task. `base` is None if it is lost, `cursor` if the task has none yet."""

    number: int
    identity: str
    body: bytes
    base: bytes | None
    cursor: bytes | None
    records: tuple[tuple[int, bytes], ...]


class JournalDatabase:
    """The database at `path`. It is made if there is none, unless what it should name is `there` already."""

    def __init__(self, path: Path, there: Sequence[str] = ()) -> None:
        self._path = path
        self._names = os.fspath(path), os.fspath(log_of(path))
        self._there = there
        self._files: tuple[tuple[int, int], ...] | None = None
        self._reading = threading.Lock()
        check_no_links(path)
        check_whole(path)
        with suppress(OSError):  # SQLite says why the file cannot be used
            path.touch(mode=0o600)
        try:
            self._writer = self._connect()
        except UNREADABLE as error:
            raise unusable(self._path, error) from error
        try:
            self._check_format()
            self._reader = self._connect()
        except UNREADABLE as error:
            self._writer.close()
            raise unusable(self._path, error) from error
        except BaseException:
            self._writer.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_format(self) -> None:
        """Make the tables in a new database. Raises `Refused` for a database of another format."""
        if _is_new(self._writer):
            if self._there:
                raise Refused(
                    f"{self._path} has no tables, and there are {' and '.join(self._there)} beside it, which would be "
                    f"removed because no task names them: {RESTORE}",
                    reason="DATA_DAMAGED",
                )
            self.commit((statement, ()) for statement in _SCHEMA)
        else:
            check_format(self._path, self._writer)

    def commit(self, statements: Iterable[Statement]) -> None:
        """Execute the statements in one transaction; afterwards the disk has them, under the names that the next
        service opens. Raises `sqlite3.Error` or `OSError`.
        """
        writer = self._writer
        try:
            writer.execute("BEGIN IMMEDIATE")
            for sql, parameters in statements:
                writer.execute(sql, parameters)
            writer.execute("COMMIT")
        except BaseException:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise
        self._check_names()

    def _check_names(self) -> None:
        """Raise `OSError` if the files that SQLite writes have lost their names, or others have got them."""
        status = map(os.lstat, self._names)
        files = tuple([(file.st_dev, file.st_ino) for file in status])
        if self._files not in (None, files):
            raise OSError(f"{self._path} or its log was replaced while the service runs")
        self._files = files

    def tasks(self) -> Iterator[TaskRows]:
        """All tasks with their records, in the order in which they were made."""
        try:
            check_owners(self._writer)
            yield from task_rows(self._writer)
        except UNREADABLE as error:
            raise unusable(self._path, error) from error

    def task(self, number: int) -> TaskRows:
        """A task with its records, as committed. On any thread."""
        try:
            with self._reading:
                return next(rows for rows in task_rows(self._reader, number))
        except (*UNREADABLE, StopIteration) as error:
            raise unusable(self._path, error) from error

    def blob_sizes(self) -> dict[bytes, int]:
        try:
            return blob_sizes(self._writer)
        except UNREADABLE as error:
            raise unusable(self._path, error) from error

    def blob(self, digest: bytes) -> bytes | None:
        """Kept rows; None if there are none of this digest. On any thread."""
        with self._reading:
            return blob_in(self._reader, digest)

    def close(self) -> None:
        """Close both connections. The last one to close moves the write-ahead log into the database."""
        with self._reading:
            self._reader.close()
        self._writer.close()


def log_of(path: Path) -> Path:
    """The write-ahead log of the database at this path."""
    return path.with_name(f"{path.name}-wal")


def code_of(error: BaseException) -> int:
    """The code of an error of SQLite, without its details; 0 of another error."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def unusable(path: Path, error: Exception, what: str = _NOT_WRITABLE) -> Refused | InvalidRequest:
    """The error that says why a database cannot be opened or read: it is damaged, or else `what` is said of it."""
    if code_of(error) in (0, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):  # Python's own errors have no code
        return Refused(
            f"{path} is damaged ({error}): {RESTORE}",
            reason="DATA_DAMAGED",
        )
    return InvalidRequest(f"{path} {what.format(error)}", reason="DATA_FOLDER")


def check_whole(path: Path) -> None:
    """Raise `Refused` if SQLite would pass over commits of the database's log, because the log is damaged."""
    log = check_log(log_of(path))
    if log.damaged:
        raise Refused(
            f"{path}-wal is damaged: frame {log.read + 1} of {log.frames} differs from what was written, and there are "
            f"commits behind it: {RESTORE}",
            reason="DATA_DAMAGED",
        )


def check_no_links(path: Path) -> None:
    """Raise `Refused` if the database or its log is a link. SQLite has the log beside the file that a link names."""
    for file in (path, log_of(path)):
        if file.is_symlink():
            raise Refused(
                f"{file} is a link to {file.readlink()}, and SQLite looks for the journal's log beside the file that a "
                "link names: put the file itself in the link's place, and its log (-wal) beside it if it has one",
                reason="DATA_DAMAGED",
            )


def check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `Refused` for a database that is not a journal, or has another format."""
    if _pragma(connection, "application_id") != _APPLICATION:
        raise Refused(f"{path} is not a journal of Tidegate: name another data folder", reason="DATA_DAMAGED")
    version = _pragma(connection, "user_version")
    if version != FORMAT:
        raise Refused(
            f"{path} has format {version}, and this version of Tidegate reads format {FORMAT}: start the version of "
            "Tidegate that wrote it, or a newer version",
            reason="DATA_VERSION",
        )
    tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
    if tables != set(_TABLES):
        raise Refused(
            f"{path} has other tables than a journal: put back a copy of the whole data folder, or name another folder",
            reason="DATA_DAMAGED",
        )


def check_owners(connection: sqlite3.Connection) -> None:
    """Raise `Refused` if a row belongs to a task that is not there: it was that of another one, whose row is lost.

    The index of `tasks` may have rows that a damaged table has lost, so both are read.
    """
    row = connection.execute(
        "SELECT task FROM (SELECT task FROM records UNION SELECT task FROM bases UNION SELECT task FROM cursors "
        "UNION SELECT number FROM tasks INDEXED BY sqlite_autoindex_tasks_1) "
        "EXCEPT SELECT number FROM tasks NOT INDEXED LIMIT 1"
    ).fetchone()
    if row is not None:
        raise Refused(
            f"the journal is damaged: it has rows of a task {row[0]!r}, which is not in it: {RESTORE}",
            reason="DATA_DAMAGED",
        )


def task_rows(connection: sqlite3.Connection, number: int | None = None) -> Iterator[TaskRows]:
    """All tasks with their records, in the order in which they were made; or the one of this `number`."""
    rows = connection.execute(
        "SELECT number, id, tasks.body, bases.body, cursors.body FROM tasks LEFT JOIN bases ON bases.task = number "
        "LEFT JOIN cursors ON cursors.task = number WHERE ?1 IS NULL OR number = ?1 ORDER BY number",
        (number,),
    )
    for number, identity, body, base, cursor in rows.fetchall():
        records = connection.execute("SELECT position, body FROM records WHERE task = ? ORDER BY position", (number,))
        yield TaskRows(
            number=number,
            identity=identity,
            body=body,
            base=base,
            cursor=cursor,
            records=tuple(records.fetchall()),
        )


def blob_in(connection: sqlite3.Connection, digest: bytes) -> bytes | None:
    """Kept rows; None if there are none of this digest, or if what is there are no bytes."""
    row = connection.execute("SELECT body FROM blobs WHERE digest = ?", (digest,)).fetchone()
    return row[0] if row is not None and isinstance(row[0], bytes) else None


def blob_sizes(connection: sqlite3.Connection) -> dict[bytes, int]:
    """The sizes of kept rows, by their digests."""
    rows = connection.execute("SELECT digest, length(body) FROM blobs WHERE typeof(digest) = 'blob'")
    return dict(rows.fetchall())


def _is_new(connection: sqlite3.Connection) -> bool:
    return not _pragma(connection, "application_id") and not _pragma(connection, "schema_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value

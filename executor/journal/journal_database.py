"""The journal's tables, in SQLite: written by one connection, a transaction at a time.

| Table | A row |
|---|---|
| `tasks` | a task: how it was made |
| `bases` | the position where a task's records start |
| `cursors` | the cursor before which a task's output is acknowledged |
| `records` | a change of a task's ledger, at a position: a task's positions follow one another |
| `blobs` | rows that are kept by their digest |

Commits wait until the disk has them (`synchronous=FULL`). SQLite itself cuts a transaction off that was not completed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from ...proto.errors import InvalidRequest, Refused

FORMAT: Final = 1
_APPLICATION: Final = 0x54647467  # "Tdtg"
_CHECKPOINT_PAGES: Final = 1_000
_BUSY_SECONDS: Final = 10.0
_SCHEMA: Final = (
    "CREATE TABLE tasks (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)",
    "CREATE TABLE bases (task INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE cursors (task INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE records (task INTEGER, position INTEGER, body BLOB NOT NULL, PRIMARY KEY (task, position))",
    "CREATE TABLE blobs (digest BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)

Statement: TypeAlias = tuple[str, tuple[object, ...]]
"""SQL with its parameters."""


def insert_task(number: int, identity: str, body: bytes) -> Statement:
    return "INSERT INTO tasks VALUES (?, ?, ?)", (number, identity, body)


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
    """The rows of one task. `base` and `cursor` are None if the task has none yet."""

    number: int
    identity: str
    body: bytes
    base: bytes | None
    cursor: bytes | None
    records: tuple[tuple[int, bytes], ...]


class JournalDatabase:
    """The database at `path`, made if there is none. `vfs` names the file system below SQLite, for tests."""

    def __init__(self, path: Path, vfs: str = "") -> None:
        self._path = path
        self._uri = f"file:{quote(str(path))}" + (f"?vfs={vfs}" if vfs else "")
        self._reading = threading.Lock()
        try:
            self._writer = self._connect()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            self._check_format()
            self._reader = self._connect()
        except sqlite3.Error as error:
            self._writer.close()
            raise self._unusable(error) from error
        except BaseException:
            self._writer.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
        )
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
        writer = self._writer
        application, version = _pragma(writer, "application_id"), _pragma(writer, "user_version")
        if not application and not _pragma(writer, "schema_version"):
            self.commit((statement, ()) for statement in _SCHEMA)
        elif application != _APPLICATION:
            raise Refused(f"{self._path} is not a journal of Tidegate: name another data folder", reason="DATA_DAMAGED")
        elif version != FORMAT:
            raise Refused(
                f"{self._path} has format {version}, and this build reads format {FORMAT}: start the version of "
                "Tidegate that wrote it, or a newer version",
                reason="DATA_VERSION",
            )

    def commit(self, statements: Iterable[Statement]) -> None:
        """Execute the statements in one transaction; afterwards the disk has them. Raises `sqlite3.Error`."""
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

    def tasks(self) -> Iterator[TaskRows]:
        """All tasks with their records, in the order in which they were made."""
        try:
            rows = self._writer.execute(
                "SELECT number, id, tasks.body, bases.body, cursors.body FROM tasks LEFT JOIN bases ON "
                "bases.task = number LEFT JOIN cursors ON cursors.task = number ORDER BY number"
            )
            for number, identity, body, base, cursor in rows.fetchall():
                records = self._writer.execute(
                    "SELECT position, body FROM records WHERE task = ? ORDER BY position", (number,)
                )
                yield TaskRows(
                    number=number,
                    identity=identity,
                    body=body,
                    base=base,
                    cursor=cursor,
                    records=tuple(records.fetchall()),
                )
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def blob_digests(self) -> list[bytes]:
        return [digest for (digest,) in self._writer.execute("SELECT digest FROM blobs")]

    def blob(self, digest: bytes) -> bytes | None:
        """Kept rows; None if there are none of this digest. On any thread."""
        with self._reading:
            row = self._reader.execute("SELECT body FROM blobs WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        """Close both connections. The last one to close moves the write-ahead log into the database."""
        with self._reading:
            self._reader.close()
        self._writer.close()

    def _unusable(self, error: sqlite3.Error) -> Refused | InvalidRequest:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (0, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):  # Python's own errors have no code
            return Refused(
                f"{self._path} is damaged ({error}): put back a copy of the whole data folder, or start with a new "
                "folder",
                reason="DATA_DAMAGED",
            )
        return InvalidRequest(
            f"{self._path} cannot be opened for writing ({error}): name another data folder, or give the service the "
            "right to write there",
            reason="DATA_FOLDER",
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value

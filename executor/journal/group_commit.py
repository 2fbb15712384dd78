"""The journal: statements of many tasks, committed together.

Callers append statements, which takes no time, and wait for the batch that has them. One thread commits: all that was
appended during a commit is the next batch. So the more tasks change at once, the more of them share a commit.

If the disk is full, a batch stays at the head of the queue and is tried again, so that the order of changes never
breaks. Callers that wait get the error, and no change is accepted until the batch is committed. Any other failure ends
the journal for good: after a failed sync, the system may claim success for data that it has lost.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Final

from ...proto.errors import Unavailable
from .journal_database import JournalDatabase, Statement

_log = logging.getLogger("tidegate.server")

LAZY_SECONDS: Final = 1.0
"""The time that a statement may wait if nobody waits for it, and between two attempts on a full disk."""

_TRANSIENT: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)


class Batch:
    """Statements that are committed together, and calls to make once they are. Callers wait for `done`: a commit wakes
    those alone whose statements it has, however many wait for the next one.
    """

    __slots__ = ("after", "done", "durable", "statements")

    def __init__(self, lock: threading.Lock) -> None:
        self.statements: list[Statement] = []
        self.after: list[Callable[[], None]] = []
        self.done = threading.Condition(lock)
        self.durable = False


class Journal:
    """Commits batches to a database on a thread of its own. It owns the database from here on."""

    def __init__(self, database: JournalDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._open = Batch(self._lock)
        self._pending: list[Batch] = []
        """Batches that are being committed, or that could not be committed."""
        self._urgent = False
        self._sleeps = False
        """True if the thread waits until it is woken. Soon after a commit it looks by itself: waking it takes time."""
        self._failures = 0
        self._error: Exception | None = None
        self._broken = False
        self._closed = self._ended = False
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="tidegate-journal", daemon=True)
        self._thread.start()

    def append(self, statements: Sequence[Statement], after: Callable[[], None] | None = None) -> Batch:
        """Add statements to the next commit. Never blocks. `after` is called once they are committed."""
        with self._lock:
            batch = self._open
            if self._broken:
                return batch
            if self._sleeps:
                self._sleeps = False
                self._work.notify()
            batch.statements += statements
            if after is not None:
                batch.after.append(after)
            return batch

    def wait(self, batch: Batch) -> None:
        """Wait until the batch is durable. Raises `Unavailable` if it could not be committed."""
        if batch.durable:
            return
        with self._lock:
            failures = self._failures
            self._urgent = True
            self._work.notify()
            while not batch.durable:
                if self._broken or self._ended or self._failures > failures:
                    raise journal_failed(self._error)
                batch.done.wait()

    def check(self) -> None:
        """Raise `Unavailable` if the last commit has failed and another attempt fails too."""
        with self._lock:
            if self._error is None:
                return
            last = self._pending[-1]
        self.wait(last)

    def close(self) -> None:
        """Commit what is left, and close the database. May be called more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._work.notify()
        self._thread.join()
        self._database.close()

    def _run(self) -> None:
        while (batches := self._next()) is not None:
            try:
                self._database.commit(statement for batch in batches for statement in batch.statements)
            except Exception as error:  # noqa: BLE001  # whatever it is, callers wait for it
                self._failed(error)
            else:
                self._committed(batches)
        with self._lock:
            self._ended = True
            self._wake_waiting()

    def _next(self) -> tuple[Batch, ...] | None:
        """The batches to commit, once a caller waits for one, or they are old enough. None at the end."""
        with self._lock:
            dozes = True
            while not (self._urgent or self._closed or self._broken):
                waiting = self._pending or self._open.statements or self._open.after
                self._sleeps = not (waiting or dozes)
                if not self._work.wait(None if self._sleeps else LAZY_SECONDS):
                    if self._pending or self._open.statements or self._open.after:
                        break
                    dozes = False
            self._sleeps = False
            if self._broken or (self._closed and self._error is not None):
                return None
            if self._urgent or self._open.statements or self._open.after:
                self._pending.append(self._open)
                self._open = Batch(self._lock)
            self._urgent = False
            if self._closed and not self._pending:
                return None
            return tuple(self._pending)

    def _committed(self, batches: Sequence[Batch]) -> None:
        with self._lock:
            if self._error is not None:
                _log.warning("the journal can be written again")
            self.commits += bool(batches)
            self._error = None
            self._pending.clear()
            for batch in batches:
                batch.durable = True
                batch.statements = []
                batch.done.notify_all()
        for call in [call for batch in batches for call in batch.after]:
            try:
                call()
            except Exception:  # noqa: BLE001  # all tasks need this thread
                _log.exception("a bug in Tidegate: work behind a commit has failed")

    def _failed(self, error: Exception) -> None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        with self._lock:
            if self._error is None:
                _log.error("the journal cannot be written (%s): no change of a durable task is accepted", error)
            self._error = error
            self._failures += 1
            self._broken = code not in _TRANSIENT
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        """Wake all callers, whatever batch they wait for."""
        for batch in (*self._pending, self._open):
            batch.done.notify_all()


def journal_failed(error: Exception | None) -> Unavailable:
    """The refusal of a change that cannot be made durable."""
    why = "the service is closing" if error is None else str(error)
    return Unavailable(
        f"the change cannot be made durable, because the journal cannot be written: {why}; nothing is lost: repeat "
        "the call once the data folder of the service has room and can be written again (after another failure than a "
        "full disk, the service has to be started again)",
        reason="JOURNAL_FAILED",
    )

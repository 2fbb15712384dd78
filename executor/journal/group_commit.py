"""The journal: statements of many tasks, committed together.

Callers append statements, which takes no time, and wait for the batch that has them. All that was appended during a
commit is the next batch. So the more tasks change at once, the more of them share a commit. A caller who comes to wait
while nobody commits or waits makes the commit itself, which saves waking another thread twice; a thread makes all
others.

If the disk is full, a batch stays at the head of the queue and is tried again, so that the order of changes never
breaks. Callers that wait get the error, and no change is accepted until the batch is committed. Any other failure ends
the journal for good: after a failed sync, the system may claim success for data that it has lost.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from ...proto.errors import Unavailable
from .journal_database import JournalDatabase, Statement, code_of

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
    """Commits batches to a database, one commit at a time. It owns the database from here on."""

    def __init__(self, database: JournalDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._open = Batch(self._lock)
        self._pending: list[Batch] = []
        """Batches that are being committed, or that could not be committed."""
        self._late: list[Callable[[], None]] = []
        self._late_at = 0.0
        """The calls that append what may be late, and when they are due."""
        self._urgent = False
        """True if a caller waits for the thread's next commit."""
        self._committing = False
        self._sleeps = False
        """True if the thread waits until it is woken. Soon after a commit it looks by itself: waking it takes time."""
        self._failures = 0
        self._error: BaseException | None = None
        self._broken = False
        self._closed = self._ended = False
        self.commits = 0
        self.make_room: Callable[[], bool] = lambda: False
        """Gives back what the service can of a full disk; True if there was something."""
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

    def later(self, call: Callable[[], None]) -> None:
        """Make the call within about `LAZY_SECONDS`, and commit what it appends. Never blocks."""
        with self._lock:
            if not self._late:
                self._late_at = monotonic() + LAZY_SECONDS
            self._late.append(call)
            if self._sleeps:
                self._sleeps = False
                self._work.notify()

    def append_late(self) -> None:
        """Make the calls that wait for `later` now. On this journal's thread, or by a caller who then waits."""
        with self._lock:
            calls, self._late = self._late, []
        _make(calls, "an acknowledgement could not be recorded")
        with self._lock:
            self._urgent = self._urgent or bool(self._open.statements or self._open.after)

    def wait(self, batch: Batch) -> None:
        """Wait until the batch is durable. Raises `Unavailable` if it could not be committed."""
        if batch.durable:
            return
        with self._lock:
            failures = self._failures
            leads = self._may_lead(batch)
            self._urgent = True
            if leads:
                batches = self._take()
            else:
                self._work.notify()
        if leads:
            self._commit(batches)
        with self._lock:
            while not batch.durable:
                if self._broken or self._ended or self._failures > failures:
                    raise journal_failed(self._error)
                batch.done.wait()

    def _may_lead(self, batch: Batch) -> bool:
        """True if the caller should make the commit itself. Called under the lock.

        Handlers of signals may raise on the main thread, at any instruction: it would not know if it had committed.
        """
        return not (
            batch is not self._open
            or batch.after  # calls that may take longer than the commit
            or self._committing
            or self._urgent
            or self._pending
            or self._broken
            or self._closed
            or threading.current_thread() is threading.main_thread()
        )

    def _take(self) -> tuple[Batch, ...]:
        """Begin a commit of all that there is. Called under the lock."""
        if self._urgent or self._open.statements or self._open.after:
            self._pending.append(self._open)
            self._open = Batch(self._lock)
        self._urgent = False
        self._committing = bool(self._pending)
        return tuple(self._pending)

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
            if batches:
                self._commit(batches)
            else:
                self.append_late()
        with self._lock:
            self._ended = True
            self._wake_waiting()

    def _commit(self, batches: Sequence[Batch]) -> None:
        try:
            self._write(batches)
        except BaseException as error:  # whatever it is, callers wait for it
            self._failed(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._committed(batches)

    def _write(self, batches: Sequence[Batch]) -> None:
        """Commit to the database: on a full disk once more, if the service can give room back."""
        statements = [statement for batch in batches for statement in batch.statements]
        try:
            self._database.commit(statements)
        except sqlite3.Error as error:
            if code_of(error) != sqlite3.SQLITE_FULL or not self.make_room():
                raise
            self._database.commit(statements)

    def _next(self) -> tuple[Batch, ...] | None:
        """The batches to commit, once a caller waits for one, or they are old enough. None of them if calls are late.
        None at the end.
        """
        with self._lock:
            dozes = True
            while self._committing or not (self._urgent or self._closed or self._broken or self._is_late()):
                waiting = self._pending or self._open.statements or self._open.after or self._late
                self._sleeps = not (waiting or dozes)
                if not self._work.wait(None if self._sleeps else LAZY_SECONDS) and not self._committing:
                    if self._pending or self._open.statements or self._open.after:
                        break
                    dozes = False
            self._sleeps = False
            if self._broken or (self._closed and self._error is not None):
                return None
            if self._late and (self._closed or self._is_late()):
                return ()
            batches = self._take()
            return None if self._closed and not batches else batches

    def _is_late(self) -> bool:
        return bool(self._late) and monotonic() >= self._late_at

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
            calls = [call for batch in batches for call in batch.after]
            if not calls:
                self._end_commit()
                return
        _make(calls, "work behind a commit has failed")
        with self._lock:
            self._end_commit()

    def _end_commit(self) -> None:
        """Let others commit. Called under the lock."""
        self._committing = False
        if self._urgent or self._pending or self._closed:
            self._work.notify()

    def _failed(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                _log.error("the journal cannot be written (%s): no change of a durable task is accepted", error)
            self._error = error
            self._failures += 1
            self._broken = code_of(error) not in _TRANSIENT
            self._wake_waiting()
            self._end_commit()

    def _wake_waiting(self) -> None:
        """Wake all callers, whatever batch they wait for."""
        for batch in (*self._pending, self._open):
            batch.done.notify_all()


def _make(calls: Sequence[Callable[[], None]], failing: str) -> None:
    """Make the calls, whatever becomes of the ones before: all tasks need the thread that makes them."""
    for call in calls:
        try:
            call()
        except Exception:  # noqa: BLE001
            _log.exception("a bug in Tidegate: %s", failing)


def journal_failed(error: BaseException | None) -> Unavailable:
    """The refusal of a change that cannot be made durable."""
    why = "the service is closing" if error is None else str(error)
    return Unavailable(
        f"the change cannot be made durable, because the journal cannot be written: {why}; nothing is lost: repeat "
        "the call once the data folder of the service has room and can be written again (after another failure than a "
        "full disk, the service has to be started again)",
        reason="JOURNAL_FAILED",
    )

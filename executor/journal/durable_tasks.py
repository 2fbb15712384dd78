"""The durable tasks of a service: those that are in its data folder, and those that are made."""

from __future__ import annotations

import itertools
import logging
import secrets
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from ...proto.errors import Refused, TidegateError, Unavailable
from ...proto.values import Cursor, Determinism
from ..checkpoints.disk import Disk, LocalDisk
from ..checkpoints.regular_checkpoints import has_state, usable_of
from ..checkpoints.root import KnownCheckpoint
from ..ledger.barrier_wishes import NO_WISHES, Wishes
from ..ledger.epoch import Start
from ..ledger.ledger_change import LeftOut
from .data_folder import NO_FOLDERS, DataFolder, check_apart
from .group_commit import Journal, journal_failed
from .journal_database import RESTORE, JournalDatabase, Statement, TaskRows, insert_task, set_base
from .kept_bytes import KeptBytes
from .kept_reader import Kept, digest_in
from .own_checkpoints import OwnCheckpoints
from .read_task import read_task
from .records import Base, Creation, base_message, creation_message, with_checksum
from .task_journal import DurableTask, Recorded

_log = logging.getLogger("tidegate.server")

_FIRST_BITS: Final = 60
"""The bits of the first task's number, which is drawn. A checksum covers the number of the record's task, so a record
of another data folder does not pass.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """A task as the journal has it. Its output before `acknowledged` is not needed any more.

    It is `cut` if the journal does not have its first records any more. `checkpoints` are the epochs of those that it
    took by itself, in order.
    """

    identity: str
    creation: Creation
    start: Start
    sealed: int
    cut: bool
    acknowledged: Cursor
    records: tuple[Recorded, ...]
    left_out: Sequence[LeftOut]
    read_by: frozenset[int]
    checkpoints: Sequence[int]
    journal: DurableTask

    @property
    def cancelled(self) -> bool:
        return any(record.change.cancelled for record in self.records)

    @property
    def restarts_behind(self) -> list[int]:
        """The epochs of the checkpoints that the task can go on from, in order."""
        return usable_of(self.checkpoints, self.acknowledged)

    def wishes(self, epoch: int) -> Wishes:
        """The wishes of the barrier of this epoch, which is one that a restart may go on behind."""
        wishes = self.start.wishes if epoch == self.start.epoch else NO_WISHES
        for record in self.records:
            if record.change.seal is not None:
                wishes = record.change.seal.wishes_behind(epoch, wishes)
        return wishes

    def other_rows_through(self, versions: Mapping[str, str]) -> int:
        """The last epoch of which readers may have other rows than those that these versions compute; 0 if none.

        Other versions than before are recorded, and durable before any of their rows is: a later start with the
        versions of before would take rows of both for the same ones.
        """
        creation, open_epoch = self.creation, self.sealed + 1
        if creation.versions != versions:
            _log.warning("task %s: %s", self.identity, _changed(creation.versions, versions))
            creation = replace(creation, versions=versions, other_rows_through=open_epoch)
            self.journal.describe(creation)
            try:
                self.journal.wait()
            except Unavailable as error:  # it is recorded once the disk has room; until then rows can still be read
                _log.warning("task %s: its versions are not recorded yet: %s", self.identity, error)
        return creation.other_rows_through if creation.options.determinism is Determinism.STRICT else open_epoch

    def delete(self) -> None:
        """Record that the task is gone. `settle` waits until it is gone for good."""
        self.journal.delete()

    @property
    def settled(self) -> bool:
        return self.journal.settled

    def settle(self) -> None:
        self.journal.wait()


class DurableTasks:
    """The journal and the kept rows in a data folder. Owns the folder until `close`. The `others` are folders that the
    service writes to, by the names of their options.

    Raises `Refused` for a folder that another service owns, that is damaged, or that has another format, and
    `InvalidRequest` for one that cannot be used, or not with the others.
    """

    def __init__(self, path: Path, disk: Disk | None = None, *, others: Mapping[str, Path | None] = NO_FOLDERS) -> None:
        check_apart(path, others)
        self._folder = DataFolder(path)
        disk = disk or LocalDisk()
        try:
            database = JournalDatabase(self._folder.journal, self._there(disk))
            try:
                disk.sync_names(self._folder.path)
                tasks = tuple(database.tasks())
                self._journal = Journal(database)
            except BaseException:
                database.close()
                raise
            try:
                self._open(tasks, database, disk)
            except BaseException:
                self._journal.close()
                raise
        except OSError as error:
            self._folder.release()
            raise Refused(
                f"the data folder {self._folder.path} is damaged: {error.filename or path} cannot be read or written "
                f"({error.strerror}): {RESTORE}",
                reason="DATA_DAMAGED",
            ) from error
        except BaseException:
            self._folder.release()
            raise

    def _there(self, disk: Disk) -> list[str]:
        """What a journal names, and no folder has before it has a journal."""
        rows = any(digest_in(name) is not None for name in disk.sizes(self._folder.rows))
        return ["kept rows"] * rows + ["checkpoints"] * bool(disk.folders(self._folder.checkpoints))

    def _open(self, tasks: Sequence[TaskRows], database: JournalDatabase, disk: Disk) -> None:
        uses: Counter[bytes] = Counter()
        self.rows = KeptBytes(self._journal, database, disk, self._folder.rows, uses)
        self.checkpoints = OwnCheckpoints(disk, self._folder.checkpoints)
        self._database = database
        self._numbers = itertools.count(max((rows.number for rows in tasks), default=secrets.randbits(_FIRST_BITS)) + 1)
        self._stored = tuple(self._read(rows, uses) for rows in tasks)
        for task in self._stored:
            self.checkpoints.keep(task.identity, task.checkpoints, task.sealed)
        self.rows.tidy()
        if self.rows.lost():
            _log.warning("the data folder lacks rows that its journal names: no rows in it are removed")
            return
        self.rows.collect()
        self.checkpoints.collect({task.identity for task in self._stored})

    def read_again(self, journal: DurableTask) -> StoredTask:
        """The task as the journal has it now. It goes on with the journal of the answer, not with this one."""
        journal.retire()
        self.flush()
        return self._read(self._database.task(journal.number), Counter())

    def _read(self, rows: TaskRows, uses: Counter[bytes]) -> StoredTask:
        read = read_task(rows, self.rows)
        uses.update(read.digests)
        taken = self.checkpoints.epochs(rows.identity) if has_state(read.creation.options) else ()
        start = read.base.start
        return StoredTask(
            identity=rows.identity,
            creation=read.creation,
            start=start,
            cut=read.base.position > 0,
            acknowledged=read.acknowledged,
            records=read.records,
            left_out=read.left_out,
            read_by=read.read_by,
            sealed=read.sealed,
            checkpoints=[epoch for epoch in taken if start.epoch <= epoch <= read.sealed],
            journal=self._task(
                rows.number, rows.identity, read.creation, len(rows.body), read.base, read.acknowledged, read.records
            ),
        )

    def _task(
        self,
        number: int,
        identity: str,
        creation: Creation,
        size: int,
        base: Base,
        acknowledged: Cursor,
        records: Sequence[Recorded] = (),
    ) -> DurableTask:
        options = creation.options
        return DurableTask(
            self._journal,
            self.rows,
            number,
            base,
            records=records,
            digests=creation.digests,
            acknowledged=acknowledged,
            size=size,
            limit=options.queue_bytes + options.spill_quota,
            after=partial(self.checkpoints.remove, identity),
        )

    def adopt(self, identity: str, checkpoint: KnownCheckpoint) -> None:
        """Keep the checkpoint that a new task goes on from, whatever becomes of it elsewhere. `create` comes next."""
        try:
            self.checkpoints.adopt(identity, checkpoint)
        except OSError as error:
            raise journal_failed(error) from error

    def create(self, identity: str, creation: Creation, start: Start, kept: Sequence[Kept]) -> DurableTask:
        """Record a new task, and wait until the record is durable. `kept` are the rows and files of its tables: they go
        again if that fails.
        """
        try:
            self._journal.check()
        except TidegateError:
            self.rows.release(creation.digests)
            raise
        number, base = next(self._numbers), Base(start=start)
        body = with_checksum("task", number, 0, creation_message(creation))
        task = self._task(number, identity, creation, len(body), base, Cursor(start.epoch + 1))
        statements: list[Statement] = [
            insert_task(number, identity, body),
            set_base(number, with_checksum("base", number, 0, base_message(base))),
        ]
        for rows in kept:
            statements += rows.take_inserts()
        try:
            self._journal.wait(self._journal.append(statements))
        except TidegateError:
            task.delete()
            raise
        return task

    def take_stored(self) -> tuple[StoredTask, ...]:
        """The tasks that were in the folder. They are given once, because they take memory."""
        stored, self._stored = self._stored, ()
        return stored

    def flush(self) -> None:
        """Wait until everything that was recorded is durable, acknowledgements too."""
        self._journal.append_late()
        self._journal.wait(self._journal.append(()))

    @property
    def commits(self) -> int:
        """The number of commits of the journal so far."""
        return self._journal.commits

    def close(self) -> None:
        """Commit what is left, and let another service have the folder. May be called more than once."""
        try:
            self._journal.close()
        except sqlite3.Error:
            _log.exception("the journal could not be closed")
        finally:
            self.checkpoints.close()
            self.rows.close()
            self._folder.release()


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The versions that differ, in words for the log."""
    names = sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
    changes = (f"{name} was {before.get(name, 'unknown')!r} and is {now.get(name, 'unknown')!r}" for name in names)
    return f"{'; '.join(changes)}: epochs that are not acknowledged may have other rows than before"

"""Write: an epoch's rows as a file in a table's folder. The file appears at the barrier."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace

import pyarrow as pa

from ..proto.errors import ExecutionError, InternalError
from .core.batches import batch_of
from .core.blocks import blocks
from .core.operator import Operator, Stream
from .writing.formats import WriteFormat
from .writing.matching_columns import TableColumns
from .writing.modes import WriteMode
from .writing.part_writer import WriteTarget
from .writing.staged_write import FileNames, Staged, WriteQuota, Written, WrittenPart, naming, opened, writer_of
from .writing.table_folder import OpenFolder, TableFolder


class Write(Operator):
    """The operator that writes its input, whose schema is `table`, and yields the columns `returned` of the written
    rows, or nothing.

    Order: the input's, in the file and in the yielded rows. Nulls: as they are. Empty input: no file, except where the
    table is created and has none. Memory: a block. Barrier: the end of `run` leaves a complete file under a hidden
    name; `commit` shows it by one rename, so that a reader sees all of an epoch or nothing of it. A run that broke, was
    closed early or dropped leaves nothing behind. The file's name consists of `writer` (a name that no other writer
    has) and the epoch, so a repeated epoch replaces its own file and no other.

    `begin` comes before each `run`; a run must end in `commit` or `drop`. All files together have at most `quota`
    bytes; a block beyond the quota is an error. A table that rows are added to must have the same columns.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        table: pa.Schema,
        returned: Sequence[int] | None,
        folder: TableFolder,
        format_: WriteFormat,
        mode: WriteMode,
        writer: str,
        quota: int,
        plan_path: str = "",
    ) -> None:
        format_.check(table)
        self.schema = schema
        self.table = table
        self.plan_path = plan_path
        self._returned = None if returned is None else tuple(returned)
        self._folder = folder
        self._format = format_
        self._mode = mode
        self._writer = hashlib.sha256(writer.encode()).hexdigest()[:16]
        self._quota = WriteQuota(quota)
        self._counts_earlier = True
        """The files of earlier epochs are still to be counted: a task that goes on after a restart has some."""
        self._columns = TableColumns(folder.name, table)
        self._epoch = 0
        self._added: _Added | None = None
        self._open: OpenFolder | None = None
        self._staged: Staged | None = None

    def begin(self, epoch: int) -> None:
        self.drop()
        self._added = None
        self._epoch = epoch

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        complete = False
        try:
            with closing(rows):
                staged = self._start()
                if staged is not None:
                    for block in blocks(rows):
                        with self._naming_the_table():
                            staged.add(block)
                        self._check_quota(staged)
                        if self._returned is not None:
                            columns = [block.column(index) for index in self._returned]
                            yield batch_of(columns, block.num_rows, self.schema)
                    self._finish(staged)
            complete = True
        finally:
            if not complete:
                self.drop()

    def commit(self) -> Written:
        """Put the files of the last run into the table."""
        staged, folder = self._staged, self._open
        if staged is None or folder is None:
            return Written()
        with self._naming_the_table():
            others = self._others(folder)
            self._check(folder, others)
            added = staged.added()
            written = staged.publish(others if self._mode is WriteMode.REPLACE else ())
        self._quota = replace(self._quota, used=self._quota.used + written.bytes)
        self._added = _Added(added, written.bytes)
        self._staged = self._open = None
        folder.close()
        return written

    def withdraw(self) -> None:
        """Take the files that the last `commit` has added out of the table. Files that it has replaced, as a repeated
        epoch replaces its own, are not brought back.
        """
        added, self._added = self._added, None
        if added is None:
            return
        self._quota = replace(self._quota, used=self._quota.used - added.bytes)
        with self._naming_the_table(), closing(self._folder.open()) as folder:
            for name in added.names:
                folder.remove(name)
            folder.sync()

    def drop(self) -> None:
        """Remove all that was written and not committed. A second call does nothing."""
        staged, folder = self._staged, self._open
        self._staged = self._open = None
        if staged is not None:
            staged.drop()
        if folder is not None:
            folder.forget()
            folder.close()

    def close(self) -> None:
        self.drop()

    def _start(self) -> Staged | None:
        """The epoch's files; None where nothing is to be written."""
        with self._naming_the_table():
            folder = self._open = opened(self._folder)
            if self._counts_earlier:
                self._count_earlier(folder)
            others = self._others(folder)
            if others and self._mode is WriteMode.IGNORE:
                self.drop()
                return None
            self._check(folder, others)
            self._staged = Staged(folder, self._names(), self._format, self.table)
            return self._staged

    def _count_earlier(self, folder: OpenFolder) -> None:
        names = self._names()
        used = sum(folder.size(name) or 0 for name in folder.files() if names.of_earlier_epoch(name))
        self._quota, self._counts_earlier = replace(self._quota, used=used), False

    def _finish(self, staged: Staged) -> None:
        with self._naming_the_table():
            if staged.empty and self._mode is not WriteMode.INSERT and not self._has_files():
                staged.add_no_rows()
            staged.finish()
        self._check_quota(staged)

    def _has_files(self) -> bool:
        """True where the table has files beside this epoch's, once this one is committed. Those of later epochs do not
        count: an epoch that is computed again makes the file that it has made before.
        """
        assert self._open is not None
        mine = any(map(self._names().of_earlier_epoch, self._open.files()))
        return mine or (self._mode is WriteMode.APPEND and bool(self._others(self._open)))

    def _names(self) -> FileNames:
        return FileNames(writer=self._writer, epoch=self._epoch, ending=self._format.ending)

    def _others(self, folder: OpenFolder) -> list[str]:
        """The files that a reader of the folder finds and this writer has not written."""
        names = self._names()
        return [name for name in folder.files() if not name.startswith((".", "_")) and not names.of_writer(name)]

    def _check_quota(self, staged: Staged) -> None:
        self._quota.check(self._folder.name, self._epoch, staged.bytes)

    def _check(self, folder: OpenFolder, others: Sequence[str]) -> None:
        if others and self._mode in (WriteMode.ERROR, WriteMode.IGNORE):
            raise ExecutionError(
                f"table {self._folder.name!r} exists already: its folder has {others[0]}; insert into the table, or "
                "create the table with a mode that appends, replaces or ignores",
                reason="TABLE_EXISTS",
            )
        foreign = next((name for name in others if writer_of(name) is None), None)
        if foreign is not None and self._mode is WriteMode.REPLACE:
            raise ExecutionError(
                f"table {self._folder.name!r} cannot be replaced: its folder has {foreign}, which no task has "
                f"written; move {foreign} away",
                reason="NOT_A_WRITTEN_TABLE",
            )
        if self._mode in (WriteMode.INSERT, WriteMode.APPEND):
            self._columns.check(folder, others)

    def _naming_the_table(self) -> AbstractContextManager[None]:
        return naming(self._folder.name)


@dataclass(frozen=True, slots=True)
class _Added:
    """The new files of a commit, and the bytes of all of its files."""

    names: Sequence[str]
    bytes: int


class AdoptingWrite(Write):
    """A write whose files other processes have written: a file for each channel, under a hidden name in the folder.

    Its input is the rows to hand on. `adopt` takes the files over before the first of these rows comes.
    """

    def target(self) -> WriteTarget:
        """The description of the files that other processes write in the epoch that has begun."""
        return WriteTarget(
            folder=self._folder,
            names=self._names(),
            format=self._format.name,
            table=self.table,
            returned=self._returned,
            schema=self.schema,
            quota=self._quota,
        )

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        complete = False
        try:
            with closing(rows):
                staged = self._start()
                if staged is not None:
                    yield from rows
                    self._finish(staged)
            complete = True
        finally:
            if not complete:
                self.drop()

    def adopt(self, parts: Sequence[WrittenPart]) -> None:
        if self._staged is None:
            raise InternalError("files of a table came before its run")
        with self._naming_the_table():
            unseen = self._staged.adopt(parts)
        if unseen is not None:
            raise ExecutionError(
                f"table {self._folder.name!r}: the processes that compute its rows have written {unseen}, which is not "
                "in the table's folder here: the write root must be one folder for all of them, under one path",
                reason="WRITE_FAILED",
            )
        self._check_quota(self._staged)

"""Reads a task's rows of the journal as values, and checks that they are those that were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...proto.encoding import messages
from ...proto.errors import Refused, TidegateError
from ...proto.tidegate.v1 import journal_pb2 as pb
from ...proto.tidegate.v1 import tasks_pb2 as wire
from ...proto.values import Cursor
from ..ledger.ledger_change import LeftOut
from .journal_database import TaskRows
from .records import Base, Creation, KeptByDigest, base_value, change_value, checked, creation_value, damaged
from .task_journal import Recorded, kept_by


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """A task's rows as values. The task's output before `acknowledged` is not needed any more."""

    creation: Creation
    base: Base
    acknowledged: Cursor
    records: tuple[Recorded, ...]

    @property
    def digests(self) -> list[bytes]:
        """The kept bytes that the rows name, once for each time."""
        return [*self.creation.digests, *(digest for record in self.records for digest in kept_by(record.change))]

    @property
    def left_out(self) -> list[LeftOut]:
        """The splits that were left out when the task was recovered."""
        left_out = list(self.base.left_out)
        for record in self.records:
            if record.change.recovered is not None:
                left_out += record.change.recovered.left_out
        return left_out

    @property
    def read_by(self) -> frozenset[int]:
        """The readers, of several, that need the task no more."""
        return self.base.read_by | {record.change.read_by for record in self.records if record.change.read_by}

    @property
    def sealed(self) -> int:
        """The last sealed epoch."""
        seals = (record.change.seal.epoch for record in self.records if record.change.seal is not None)
        return max(seals, default=self.base.start.epoch)


def read_task(rows: TaskRows, kept: KeptByDigest) -> ReadTask:
    """The values in a task's rows. Raises `Refused` if a row is damaged or missing, or a value cannot be read."""
    try:
        return _read(rows, kept)
    except Refused:
        raise
    except (TidegateError, KeyError, TypeError, ValueError) as error:
        raise damaged(f"a value of task {rows.identity!r} cannot be read ({error})") from error


def _read(rows: TaskRows, kept: KeptByDigest) -> ReadTask:
    number = rows.number
    creation = creation_value(checked("task", number, 0, rows.body, pb.Creation))
    if creation.info.id != rows.identity:
        raise damaged(f"the task that was made as {creation.info.id!r} is called {rows.identity!r}")
    if rows.base is None:
        raise damaged(f"the start of the records of task {rows.identity!r} is missing")
    base = base_value(checked("base", number, 0, rows.base, pb.Base))
    cursor = Cursor(base.start.epoch + 1)
    if rows.cursor is not None:
        cursor = messages.cursor_value(checked("cursor", number, 0, rows.cursor, wire.Cursor))
    return ReadTask(
        creation=creation,
        base=base,
        acknowledged=cursor,
        records=tuple(_records(rows, base.position, kept)),
    )


def _records(rows: TaskRows, before: int, kept: KeptByDigest) -> Iterator[Recorded]:
    for expected, (position, body) in enumerate(rows.records, before + 1):
        if position != expected:
            raise damaged(f"record {expected} of task {rows.identity!r} is missing")
        change = change_value(checked("record", rows.number, position, body, pb.Change), kept)
        yield Recorded(position, change, len(body))

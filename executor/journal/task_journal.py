"""The journal as a task sees it: it records the changes of the task's ledger, in their order.

The task records a change under its lock, where it has made the change, and waits without the lock before it answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ...proto.encoding import messages
from ...proto.values import Cursor, InlineSplit, Split
from ..ledger.epoch import is_durable
from ..ledger.ledger import Ledger
from ..ledger.ledger_change import Change, EndedSources, SealedEpoch
from ..ledger.split_book import AcceptedSplit
from ..ledger.split_digest import digest_of_stream, rows_stream
from ..ledger.transactions import Record
from .group_commit import Batch, Journal
from .journal_database import Statement, cut_records, delete_task, insert_record, set_base, set_cursor
from .kept_bytes import KeptBytes
from .kept_reader import Kept
from .records import Base, base_message, change_message, folded, with_checksum


class TaskJournal(Protocol):
    """The journal of one task."""

    keeps: bool
    """False if nothing is recorded, so that the task ends with its service."""

    @property
    def settled(self) -> bool:
        """True if everything that was recorded is durable."""
        ...

    def check(self) -> None:
        """Raise `Unavailable` if no change can be recorded now."""
        ...

    def keep(self, accepted: AcceptedSplit, split: Split, upload: Path | None) -> None:
        """Keep the split's rows, or the uploaded file that it names, until its epoch is acknowledged. May be slow."""
        ...

    def drop(self, splits: Iterable[AcceptedSplit]) -> None:
        """Drop what was kept of splits that were not added after all."""
        ...

    def record(
        self,
        ledger: Ledger,
        at_us: int,
        sealed: int,
        *,
        splits: Sequence[AcceptedSplit] = (),
        ended: EndedSources | None = None,
        transaction: Record | None = None,
        checkpoint: int | None = None,
        cancelled: bool = False,
    ) -> None:
        """Record a change that the ledger has made. Called under the task's lock; never waits.

        `sealed` is the last sealed epoch before the change, `checkpoint` a sealed epoch whose checkpoint was requested.
        """
        ...

    def acknowledged(self, cursor: Cursor, needed: int, after: Callable[[], None] | None = None) -> None:
        """Record soon that everything before the cursor is acknowledged. Called under the task's lock; never waits.

        `needed` is the first epoch whose splits a restart may read. `after` is called once this is durable.
        """
        ...

    def delete(self) -> None:
        """Record that the task is gone. Called under the task's lock, and at last; never waits."""
        ...

    def wait(self) -> None:
        """Wait until everything that was recorded is durable. Raises `Unavailable` if it cannot be."""
        ...


class NoJournal:
    """The journal of a task that ends with its service."""

    keeps = False
    settled = True

    def check(self) -> None:
        """Raise nothing."""

    def keep(self, accepted: AcceptedSplit, split: Split, upload: Path | None) -> None:
        """Keep nothing."""

    def drop(self, splits: Iterable[AcceptedSplit]) -> None:
        """Drop nothing."""

    def record(self, *_: object, **__: object) -> None:
        """Record nothing."""

    def acknowledged(self, *_: object, **__: object) -> None:
        """Record nothing."""

    def delete(self) -> None:
        """Record nothing."""

    def wait(self) -> None:
        """Return at once."""


NO_JOURNAL: Final = NoJournal()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record that a restart would still need."""

    position: int
    change: Change


class DurableTask:
    """Records the changes of one task. `records` are those that were read from the journal, `digests` the kept bytes
    that the task's own record names. `after` is called once the task is deleted for good.
    """

    keeps = True

    def __init__(
        self,
        journal: Journal,
        rows: KeptBytes,
        number: int,
        base: Base,
        *,
        records: Sequence[Recorded] = (),
        digests: Iterable[bytes] = (),
        after: Callable[[], None],
    ) -> None:
        self.number = number
        self._journal = journal
        self._rows = rows
        self._base = base
        self._position = base.position + len(records)
        self._records = deque(records)
        self._digests = tuple(digests)
        self._after = after
        self._last: Batch | None = None
        self._deleted = False

    @property
    def settled(self) -> bool:
        return is_durable(self._last)

    def check(self) -> None:
        self._journal.check()

    def wait(self) -> None:
        if self._last is not None:
            self._journal.wait(self._last)

    def keep(self, accepted: AcceptedSplit, split: Split, upload: Path | None) -> None:
        if isinstance(split, InlineSplit):
            kept = accepted.kept = self._rows.keep(rows_stream(split))
            accepted.digest = digest_of_stream(split, kept.digest)
        elif upload is not None:
            accepted.kept = self._rows.keep_file(upload)

    def drop(self, splits: Iterable[AcceptedSplit]) -> None:
        self._rows.release([split.kept.digest for split in splits if split.kept is not None])

    def record(
        self,
        ledger: Ledger,
        at_us: int,
        sealed: int,
        *,
        splits: Sequence[AcceptedSplit] = (),
        ended: EndedSources | None = None,
        transaction: Record | None = None,
        checkpoint: int | None = None,
        cancelled: bool = False,
    ) -> None:
        seal = ledger.sealed_epoch(ledger.sealed) if ledger.sealed > sealed else None
        if seal is None and checkpoint is not None:
            seal = SealedEpoch(epoch=checkpoint, last={}, checkpoint=ledger.checkpoint(checkpoint))
        change = Change(
            at_us=at_us,
            splits=[(split, ledger.epoch_of(split)) for split in splits],
            seal=seal,
            ended=ended,
            transaction=transaction,
            cancelled=cancelled,
        )
        batch = self._last = self._append(change)
        for split in splits:
            split.commit = batch
        of_change = {epoch for _, epoch in change.splits}
        for epoch in ledger.epochs:
            if epoch.number in of_change or (seal is not None and seal.epoch == epoch.number):
                epoch.commit = batch

    def _append(self, change: Change) -> Batch:
        self._position += 1
        self._records.append(Recorded(self._position, change))
        statements: list[Statement] = []
        for split, _ in change.splits:
            if isinstance(split.kept, Kept):
                statements += split.kept.take_inserts()
        body = with_checksum("record", self.number, self._position, change_message(change))
        return self._journal.append([*statements, insert_record(self.number, self._position, body)])

    def acknowledged(self, cursor: Cursor, needed: int, after: Callable[[], None] | None = None) -> None:
        if self._deleted:
            return
        unused: list[bytes] = []
        before = self._base.position
        while self._records and self._records[0].change.last_epoch < needed:
            record = self._records.popleft()
            self._base = folded(self._base, record.position, record.change)
            unused += kept_by(record.change)
        statements = [set_cursor(self.number, with_checksum("cursor", self.number, 0, messages.cursor_message(cursor)))]
        if self._base.position > before:
            body = with_checksum("base", self.number, 0, base_message(self._base))
            statements += [set_base(self.number, body), cut_records(self.number, self._base.position)]
        self._journal.append(statements, after)
        self._rows.release(unused)

    def delete(self) -> None:
        kept = [digest for record in self._records for digest in kept_by(record.change)]
        self._deleted = True
        self._last = self._journal.append(delete_task(self.number), self._after)
        self._rows.release([*kept, *self._digests])


def kept_by(change: Change) -> list[bytes]:
    """The kept bytes that a change names."""
    return [split.kept.digest for split, _ in change.splits if split.kept is not None]

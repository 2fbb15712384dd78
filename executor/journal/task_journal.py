"""The journal as a task sees it: it records the changes of the task's ledger, in their order.

The task records a change under its lock, where it has made the change, and waits without the lock before it answers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from ...proto.encoding import messages
from ...proto.errors import Exhausted
from ...proto.values import Cursor, InlineSplit, Split
from ..ledger.epoch import is_durable
from ..ledger.ledger import Ledger
from ..ledger.ledger_change import Change, EndedSources, FailedEpoch, Recovered, SealedEpoch
from ..ledger.split_book import AcceptedSplit
from ..ledger.split_digest import RowsStream, digest_of_stream
from ..ledger.transactions import Record
from ..runtime.batch_store import Quota
from .group_commit import Batch, Journal
from .journal_database import Statement, cut_records, delete_task, insert_record, set_base, set_cursor, set_task
from .kept_bytes import KeptBytes
from .kept_reader import Kept
from .records import Base, Creation, base_message, change_message, creation_message, folded, with_checksum

_MERGED: Final = 16
_MERGED_BYTES: Final = 1 << 18
"""So many acknowledgements of a task at most are recorded as one, and so many bytes wait for that to be removed."""


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
        """Keep the split's rows, or the uploaded file that it names, until its epoch is acknowledged. May be slow.

        Raises `Exhausted` if there is no room for them.
        """
        ...

    def check_room(self) -> None:
        """Raise `Exhausted` if the task may have no more in the data folder."""
        ...

    @property
    def presses(self) -> bool:
        """True if the task has half of what it may have in the data folder, so that a checkpoint should not wait."""
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
        failure: FailedEpoch | None = None,
        recovered: Recovered | None = None,
        read_by: int = 0,
    ) -> None:
        """Record a change that the ledger has made, or one beside it. Called under the task's lock; never waits.

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
    presses = False

    def check(self) -> None:
        """Raise nothing."""

    def keep(self, accepted: AcceptedSplit, split: Split, upload: Path | None) -> None:
        """Keep nothing."""

    def check_room(self) -> None:
        """Raise nothing."""

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
    size: int


class DurableTask:
    """Records the changes of one task. `records` are those that were read from the journal, `digests` the kept bytes
    that the task's own record of `size` bytes names. `after` is called once the task is deleted for good.

    The task may add no more while its record, and what it has in the data folder of epochs that are not `acknowledged`,
    is beyond `limit` bytes.
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
        acknowledged: Cursor,
        size: int,
        limit: int,
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
        self._quota = Quota(limit)
        self._unread = deque(record for record in records if record.change.last_epoch >= acknowledged.epoch)
        self._quota.used = size + rows.size(self._digests) + sum(map(self._size_of, self._unread))
        self._size = sum(map(self._size_of, records))
        self._last: Batch | None = None
        self._retired = False
        self._lock = threading.Lock()
        """Held where the start of the records changes. Taken behind the task's lock."""
        self._late: tuple[Cursor, int] | None = None
        """The last acknowledgement that is not recorded yet, and the first epoch whose splits a restart may read."""
        self._merged = self._merged_bytes = 0

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
            stream = RowsStream(split)
            kept = accepted.kept = self._keep(stream.size, partial(self._rows.keep, stream))
            accepted.digest = digest_of_stream(split, kept.digest)
        elif upload is not None:
            accepted.kept = self._keep(upload.stat().st_size, partial(self._rows.keep_file, upload))
        else:
            self.check_room()

    def _keep(self, size: int, keep: Callable[[], Kept]) -> Kept:
        if not self._quota.take(size):
            raise self._no_room()
        try:
            return keep()
        except BaseException:
            self._quota.give(size)
            raise

    def check_room(self) -> None:
        if self._quota.used > self._quota.limit:
            raise self._no_room()

    @property
    def presses(self) -> bool:
        return 2 * self._size > self._quota.limit

    def _no_room(self) -> Exhausted:
        has = (
            f"the task has {self._quota.used:,} bytes in the data folder that are not acknowledged, and queue_bytes "
            f"and spill_quota together allow it {self._quota.limit:,}"
        )
        if any(record.change.seal is not None for record in tuple(self._unread)):
            return Exhausted(f"{has}: read and acknowledge, then add more", reason="OUTPUT_UNREAD")
        return Exhausted(f"{has}: request a barrier, or raise spill_quota", reason="WAITS_FOR_SEAL")

    def _size_of(self, record: Recorded) -> int:
        """The bytes of a record, and of what is kept for it."""
        return record.size + self._rows.size(kept_by(record.change))

    def drop(self, splits: Iterable[AcceptedSplit]) -> None:
        digests = [split.kept.digest for split in splits if split.kept is not None]
        self._quota.give(self._rows.size(digests))
        self._rows.release(digests)

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
        failure: FailedEpoch | None = None,
        recovered: Recovered | None = None,
        read_by: int = 0,
    ) -> None:
        if self._retired:  # a record of a deleted task would become one of the next task with its number
            return
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
            failure=failure,
            recovered=recovered,
            read_by=read_by,
        )
        self._last = batch = self._append(change)
        for split in splits:
            split.commit = batch
        of_change = {epoch for _, epoch in change.splits}
        for epoch in ledger.epochs:
            if epoch.number in of_change or (seal is not None and seal.epoch == epoch.number):
                epoch.commit = batch

    def _append(self, change: Change) -> Batch:
        position = self._position + 1
        body = with_checksum("record", self.number, position, change_message(change))
        self._position = position  # not before: a position without a record would be a lost one to the next start
        statements: list[Statement] = []
        for split, _ in change.splits:
            if isinstance(split.kept, Kept):
                statements += split.kept.take_inserts()
        record = Recorded(position, change, len(body))
        size = self._size_of(record)
        with self._lock:
            self._records.append(record)
            self._size += size
        self._unread.append(record)
        self._quota.add(len(body))
        return self._journal.append([*statements, insert_record(self.number, position, body)])

    def acknowledged(self, cursor: Cursor, needed: int, after: Callable[[], None] | None = None) -> None:
        with self._lock:
            if self._retired:
                return
            waits = self._late is not None
            self._late = cursor, needed
            self._merged += 1
            while self._unread and self._unread[0].change.last_epoch < cursor.epoch:
                size = self._size_of(self._unread.popleft())
                self._quota.give(size)
                self._merged_bytes += size
            if after is not None or self._merged >= _MERGED or self._merged_bytes > _MERGED_BYTES:
                self._record_late(after)
            elif not waits:
                self._journal.later(self.record_late)

    def record_late(self) -> None:
        """Record the last acknowledgement, if it is not recorded yet. On any thread; never waits."""
        with self._lock:
            self._record_late(None)

    def _record_late(self, after: Callable[[], None] | None) -> None:
        if self._late is None:
            return
        cursor, needed = self._late
        self._late, self._merged, self._merged_bytes = None, 0, 0
        unused: list[bytes] = []
        before = self._base.position
        while self._records and self._records[0].change.last_epoch < needed:
            record = self._records.popleft()
            self._size -= self._size_of(record)
            self._base = folded(self._base, record.position, record.change)
            unused += kept_by(record.change)
        statements = [set_cursor(self.number, with_checksum("cursor", self.number, 0, messages.cursor_message(cursor)))]
        if self._base.position > before:
            body = with_checksum("base", self.number, 0, base_message(self._base))
            statements += [set_base(self.number, body), cut_records(self.number, self._base.position)]
        self._journal.append(statements, after)
        self._rows.release(unused)

    def describe(self, creation: Creation) -> None:
        """Record that the task is made in another way from here on. Never waits."""
        body = with_checksum("task", self.number, 0, creation_message(creation))
        self._last = self._journal.append([set_task(self.number, body)])

    def retire(self) -> None:
        """Record nothing more: the task goes on with another one."""
        with self._lock:
            self._record_late(None)
            self._retired = True

    def delete(self) -> None:
        with self._lock:
            kept = [digest for record in self._records for digest in kept_by(record.change)]
            self._late = None
            self._retired = True
        self._last = self._journal.append(delete_task(self.number), self._after)
        self._rows.release([*kept, *self._digests])


def kept_by(change: Change) -> list[bytes]:
    """The kept bytes that a change names."""
    return [split.kept.digest for split, _ in change.splits if split.kept is not None]

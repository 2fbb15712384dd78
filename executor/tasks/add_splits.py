"""Adds splits to a task: one at a time, or several as a transaction. A refused call changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...operators.core.operator import UNBOUNDED
from ...operators.core.piece import FilePiece
from ...operators.sources.split_pieces import ending_digest, piece_rows
from ...proto.current_call import elsewhere
from ...proto.errors import Exhausted, InvalidRequest, Refused, SplitError, TidegateError
from ...proto.values import Added, AddRequest, FileSplit, FoundFile, InlineSplit, Seal, Split, Transacted, Transaction
from ..api.computation import Computation
from ..ledger.ledger import Ledger
from ..ledger.split_book import AcceptedSplit, KeptSplit, origin_of
from ..ledger.split_digest import RowsStream, digest_of_stream, rows_fingerprint, split_digest
from ..ledger.transactions import Additions, Record, check_transaction, content_digest
from ..runtime.batch_store import Holding
from .task_state import TaskState
from .task_uploads import PassingUploads

MOST_FOUND: Final = 10_000
_LONGEST_COLUMN: Final = 1_000


class Adding:
    """Adds the splits of each source one at a time.

    A folder is listed under no lock: a slow folder holds up no other call, not even one for the same source. Rows are
    spilled without the task's lock, under the lock of their source.
    """

    def __init__(self, task_state: TaskState, computation: Computation, uploads: PassingUploads) -> None:
        self._task_state = task_state
        self._computation = computation
        self._uploads = uploads
        self._sources = {name: threading.Lock() for name in task_state.ledger.fed}
        self._admitting = threading.Lock()
        self._transacting = threading.Lock()

    def _turn(self, source: str) -> threading.Lock:
        """The lock of those who add to the source."""
        with self._task_state.lock:
            self._task_state.check_running()
            return self._sources[self._task_state.ledger.source(source).name]

    @contextmanager
    def _turns(self, sources: Iterable[str]) -> Iterator[None]:
        """Wait until no other thread adds to any of these sources."""
        with self._task_state.lock:
            self._task_state.check_running()
            names = {self._task_state.ledger.source(name).name for name in sources}
        with ExitStack() as stack:
            for name in sorted(names):
                stack.enter_context(self._sources[name])
            yield

    # ------------------------------------------------------------------------------------------------ one split

    def add(self, source: str, split: Split, sequence: int | None, epoch: int | None, *, lends: bool = False) -> Added:
        """Add a split. Its rows stay in the memory of a caller who `lends` them, and calls `end_loan` afterwards."""
        task_state = self._task_state
        listed: tuple[FilePiece, ...] = ()
        if isinstance(split, FileSplit):
            with task_state.lock:
                accepted, known = self._located(source, split, sequence, epoch)
            if known is not None:
                return self._duplicate(accepted, split, known)
            self._uploads.check_there(split, accepted.origin)
            listed = self._computation.accept_file(accepted.source, split, accepted.origin)
        with self._turn(source):
            with task_state.lock:
                accepted, known = self._located(source, split, sequence, epoch)
                if known is None and isinstance(split, InlineSplit) and self._fits(accepted, split, lends=lends):
                    return self._enter(accepted, split)
            if known is not None:
                return self._duplicate(accepted, split, known)
            self._accept(accepted, split, listed, lends=lends)
            with task_state.lock:
                try:
                    self._located(source, split, accepted.sequence, epoch)
                except TidegateError:
                    self._drop([accepted])
                    raise
                return self._enter(accepted, split)

    def end_loan(self, sealed: int | None) -> None:
        """Write lent rows to the disk, unless their epoch has been `sealed` and runs now."""
        if not self._task_state.queue.lent:
            return
        with self._task_state.lock:
            ledger, current = self._task_state.ledger, self._task_state.ledger.current()
            waits = current.number == sealed and bool(ledger.missing(current))
            if sealed is not None and current.number >= sealed and not waits:
                return
        with self._admitting:
            self._task_state.queue.take_back()

    def _fits(self, accepted: AcceptedSplit, split: InlineSplit, *, lends: bool) -> bool:
        """Check that the source can have the rows, and put them in the queue; True if no more is to be done.

        More is to be done if there was no room in memory, or if the rows have to be kept on the disk as well.
        """
        self._computation.accept_inline(accepted.source, split, accepted.origin)
        if self._task_state.journal.keeps:
            return False
        queue, holding = self._task_state.queue, _holding(split)
        return queue.put(accepted, holding, lends=lends)

    def _drop(self, splits: Sequence[AcceptedSplit]) -> None:
        """Give back what is held of splits that were not added after all. Called under the lock."""
        self._task_state.forget(splits)
        self._task_state.journal.drop(splits)

    def _accept(
        self,
        accepted: AcceptedSplit,
        split: Split,
        listed: tuple[FilePiece, ...],
        besides: Sequence[AcceptedSplit] = (),
        *,
        lends: bool = False,
    ) -> None:
        """Take the files that were listed, or take rows into the queue. Keep what a restart would need of them.

        `besides` are other splits of the same transaction.
        """
        self._name_or_queue(accepted, split, listed, besides, lends=lends and not self._task_state.journal.keeps)
        try:
            self._task_state.journal.keep(accepted, split, self._uploaded(accepted))
        except BaseException:
            with self._task_state.lock:
                self._task_state.forget([accepted])
            raise

    def _uploaded(self, accepted: AcceptedSplit) -> Path | None:
        """The file of the split, if a client has uploaded it to this task."""
        paths = (Path(piece.path) for piece in accepted.files)
        return next((path for path in paths if path.parent == self._task_state.files.folder), None)

    def _name_or_queue(
        self,
        accepted: AcceptedSplit,
        split: Split,
        listed: tuple[FilePiece, ...],
        besides: Sequence[AcceptedSplit],
        *,
        lends: bool,
    ) -> None:
        match split:
            case FileSplit():
                accepted.files = _of(accepted, listed)
                accepted.digest = split_digest(self._uploads.with_content_digest(split))
            case InlineSplit():
                with self._admitting:
                    self._task_state.queue.admit(
                        accepted,
                        _holding(split),
                        lambda: (*self._waiting_for_a_seal(self._task_state.ledger), *besides),
                        lends=lends,
                    )

    def _enter(self, accepted: AcceptedSplit, split: Split) -> Added:
        ledger, now_us = self._task_state.ledger, now()
        sealed = ledger.sealed
        answer = ledger.add(accepted, now_us)
        self._uploads.used_by(accepted, split)
        self._task_state.journal.record(ledger, now_us, sealed, splits=(accepted,))
        return answer

    def _located(
        self, source: str, split: Split, sequence: int | None, epoch: int | None
    ) -> tuple[AcceptedSplit, Added | None]:
        """The split as it would be accepted, and the earlier answer if its number was given before."""
        self._task_state.check_running()
        ledger, number, belongs = self._task_state.ledger.locate(source, sequence, epoch)
        accepted = _accepted(ledger.name, number, split)
        if not ledger.has(number):
            return accepted, None
        return ledger.splits.get(number, accepted), Added(sequence=number, duplicate=True, epoch=belongs)

    def _duplicate(self, known: AcceptedSplit, split: Split, answer: Added) -> Added:
        """The answer to a number given twice, if the content is the same.

        An acknowledged epoch's content is not compared.
        """
        with self._task_state.lock:
            digest, batches = known.digest, known.batches()
            if digest is None and known.inline is None:
                return answer
        match split:
            case FileSplit():
                self._uploads.check_there(split, known.origin)
                same = digest == split_digest(self._uploads.with_content_digest(split))
            case InlineSplit() if known.kept is not None:
                same = self._is_kept(known, known.kept, split)
            case InlineSplit():
                same = rows_fingerprint(split) == (digest or known.fingerprint(batches))
        if not same:
            raise Refused(
                f"{known.origin} was added before with other content; the next number is "
                f"{self._task_state.ledger.source(known.source).highest + 1}. If another client feeds this source, "
                "too, attach to the task again to continue after its splits",
                reason="SEQUENCE_REUSED",
            )
        return answer

    def _is_kept(self, known: AcceptedSplit, kept: KeptSplit, split: InlineSplit) -> bool:
        """True if the split is the one that is kept, or if its epoch was acknowledged meanwhile."""
        try:
            return known.digest == digest_of_stream(split, kept.digest) and kept.has(RowsStream(split))
        except SplitError:
            with self._task_state.lock:
                if self._task_state.ledger.source(known.source).splits.get(known.sequence) is known:
                    raise
            return True

    def _waiting_for_a_seal(self, ledger: Ledger) -> list[AcceptedSplit]:
        """The splits of the open epoch that only a seal will get read: not those that run ahead and are then freed."""
        ahead = self._computation.early_source if self._computation.early_frees else None
        return [
            split
            for name, source in ledger.fed.items()
            if name != ahead
            for number, split in source.splits.items()
            if number > source.sealed
        ]

    # ------------------------------------------------------------------------------------------------ finding files

    def find(self, source: str, split: FileSplit, *, pieces: bool) -> tuple[FoundFile, ...]:
        """The files that the split would have, opened if their `pieces` are wanted. Nothing is added."""
        with self._task_state.lock:
            self._task_state.check_running()
            name = self._task_state.ledger.source(source).name
        origin = f"a split of source {name!r}"
        self._uploads.check_there(split, origin)
        files = self._computation.accept_file(name, split, origin)
        if len(files) > MOST_FOUND:
            raise Exhausted(
                f"{split.path} has {len(files):,} files; one answer lists at most {MOST_FOUND:,}: name its folders "
                "one by one",
                reason="TOO_MANY_FILES",
            )
        with elsewhere():
            return tuple(
                FoundFile(
                    path=file.path,
                    format=file.format,
                    size=file.version.size,
                    folders=file.partition,
                    pieces=piece_rows(file) if pieces else (),
                    version=file.version.text,
                    ending=ending_digest(file) if pieces else "",
                )
                for file in files
            )

    # --------------------------------------------------------------------------------------------- transactions

    def transact(self, transaction: Transaction, request: AddRequest) -> Transacted:
        """Add all of the splits and the seal, or nothing."""
        check_transaction(transaction)
        splits, seals = [(source, split) for source, split, _ in request.splits], request.seal is not None
        before = self._before(transaction, len(splits))
        for name, split in splits:
            if isinstance(split, FileSplit):
                self._uploads.check_there(split, f"a split of source {name!r}")
        digest = content_digest(
            [(name, self._uploads.with_content_digest(split)) for name, split in splits], seals=seals
        )
        if before is not None:
            return self._replayed(before, transaction, splits, digest)
        listed = self._list_all(splits)
        with self._transacting, self._turns({self._task_state.ledger.source(name).name for name, _ in splits}):
            before = self._before(transaction, len(splits))  # the same transaction may have come twice at once
            if before is not None:
                return self._replayed(before, transaction, splits, digest)
            while True:
                accepted = self._accept_all(splits, listed)
                with self._task_state.lock:
                    try:
                        self._task_state.check_running()
                        fits = self._task_state.ledger.may_commit(accepted, request.epoch, seals=seals)
                    except TidegateError:
                        self._drop(accepted)
                        raise
                    if fits:
                        return self._commit(transaction, splits, accepted, digest, request.seal)
                    self._drop(accepted)  # meanwhile a seal that waits for later numbers has taken these numbers

    def _before(self, transaction: Transaction, splits: int) -> Record | None:
        """The record of the transaction if it was made before, else None if there is room for it."""
        task_state = self._task_state
        with task_state.lock:
            task_state.check_running()
            before = task_state.ledger.transactions.repeated(transaction)
            if before is None:
                task_state.ledger.check_room(splits)
                task_state.journal.check_room()
            return before

    def _list_all(self, splits: Additions) -> list[tuple[FilePiece, ...]]:
        """The files of each split, listed as for the numbers that the splits would have now."""
        return [
            self._computation.accept_file(accepted.source, split, accepted.origin)
            if isinstance(split, FileSplit)
            else ()
            for accepted, split in zip(self._numbered(splits), [split for _, split in splits], strict=True)
        ]

    def _commit(
        self,
        transaction: Transaction,
        splits: Additions,
        accepted: Sequence[AcceptedSplit],
        digest: str,
        seal: Seal | None,
    ) -> Transacted:
        ledger, now_us = self._task_state.ledger, now()
        sealed = ledger.sealed
        record, added = ledger.commit(transaction, accepted, digest, seal, now_us)
        for accepted_split, (_, split) in zip(accepted, splits, strict=True):
            self._uploads.used_by(accepted_split, split)
        self._task_state.journal.record(ledger, now_us, sealed, splits=accepted, transaction=record)
        return Transacted(epoch=record.epoch, added=tuple(added))

    def _numbered(self, splits: Additions) -> Iterator[AcceptedSplit]:
        """The splits with the next numbers of the open epoch."""
        ledger = self._task_state.ledger
        numbers: dict[str, int] = {}
        for name, split in splits:
            with self._task_state.lock:
                source = ledger.source(name)
                numbers[source.name] = numbers.get(source.name, source.last) + 1
            yield _accepted(source.name, numbers[source.name], split)

    def _accept_all(self, splits: Additions, listed: Sequence[tuple[FilePiece, ...]]) -> list[AcceptedSplit]:
        """Accept the splits with the next numbers of the open epoch. If one is refused, none is held."""
        accepted: list[AcceptedSplit] = []
        try:
            for accepted_split, (_, split), files in zip(self._numbered(splits), splits, listed, strict=True):
                if isinstance(split, InlineSplit):
                    self._computation.accept_inline(accepted_split.source, split, accepted_split.origin)
                self._accept(accepted_split, split, files, besides=accepted)
                accepted.append(accepted_split)
        except BaseException:
            with self._task_state.lock:
                self._drop(accepted)
            raise
        return accepted

    def _replayed(self, before: Record, transaction: Transaction, splits: Additions, digest: str) -> Transacted:
        if before.version != transaction.version:
            return Transacted(epoch=None, replayed=True, same=None)
        if before.digest != digest:
            return Transacted(epoch=before.epoch, replayed=True, same=False)
        numbers = dict(before.first)
        added = []
        for name, _ in splits:
            source = self._task_state.ledger.source(name).name
            added.append(Added(sequence=numbers[source], duplicate=True, epoch=before.epoch))
            numbers[source] += 1
        return Transacted(epoch=before.epoch, replayed=True, added=tuple(added))


def _accepted(source: str, number: int, split: Split) -> AcceptedSplit:
    origin = origin_of(source, number)
    if split.watermark == UNBOUNDED:
        raise InvalidRequest(
            f"{origin} has watermark {UNBOUNDED}, which stands for a source that has ended: end it with no_more_splits"
        )
    if split.change_column is not None and len(split.change_column) > _LONGEST_COLUMN:
        raise InvalidRequest(
            f"{origin} has a change column with a name of {len(split.change_column):,} characters; at most "
            f"{_LONGEST_COLUMN:,} are allowed"
        )
    accepted = AcceptedSplit(source, number, origin, split.watermark, split.change_column, split.missing_columns)
    if isinstance(split, InlineSplit):
        accepted.schema = split.schema
    return accepted


def _of(accepted: AcceptedSplit, listed: tuple[FilePiece, ...]) -> tuple[FilePiece, ...]:
    """The files under the number that the split has got, which another may have been when they were listed."""
    if all(piece.origin == accepted.origin for piece in listed):
        return listed
    return tuple(replace(piece, origin=accepted.origin) for piece in listed)


def now() -> int:
    """The time in microseconds since 1970."""
    return time.time_ns() // 1000


def _holding(split: InlineSplit) -> Holding:
    return Holding(tuple(batch for batch in split.batches if batch.num_rows))

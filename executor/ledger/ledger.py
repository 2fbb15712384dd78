"""The ledger of a task: its splits, the epoch of each split, the seals, and the ends of sources.

The ledger is a plain state machine: no locks, no threads, no data. Its contract is the task lifecycle of the design. A
refused call leaves the ledger unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from ...proto.encoding.number_ranges import LARGEST
from ...proto.errors import Exhausted, InvalidRequest, Refused
from ...proto.source_names import fed_source
from ...proto.values import Added, Seal, Transaction
from ..api.computation import Source
from .barrier_wishes import NOTHING, BarrierWishes, Said, checkpoint_too_late, said_by_barrier
from .epoch import Epoch, Start
from .failed_epochs import Failures
from .ledger_change import Change, EndedSources, SealedEpoch
from .split_book import AcceptedSplit, SourceLedger
from .transactions import Record, Transactions

_SPLITS_OF_EPOCH: Final = 4
"""An epoch that is not acknowledged takes the memory of so many splits, even without rows."""


class Ledger:
    """The book of a task.

    `epochs` holds the sealed epochs that are not finished, oldest first; `open` is the next epoch. At most
    `most_splits` splits may belong to epochs that are not acknowledged, and there are at most a quarter as many of
    these epochs.
    """

    def __init__(
        self, sources: Sequence[Source], max_pending_epochs: int, start: Start, most_splits: int = LARGEST
    ) -> None:
        self.static = tuple(source.name for source in sources if source.static)
        self.fed = {source.name: SourceLedger(source.name) for source in sources if not source.static}
        self.transactions = Transactions(start.transactions)
        self.max_pending_epochs = max_pending_epochs
        self._most_splits = most_splits
        self._most_epochs = max(1, most_splits // _SPLITS_OF_EPOCH)
        self.epochs: list[Epoch] = []
        self.sealed = self.finished = self.barrier_read = start.epoch
        self._start = start.epoch
        self.ended = False
        self._bounds: dict[int, dict[str, int]] = {}
        self._wishes = BarrierWishes(start.epoch, start.wishes)
        self.failures = Failures()
        for name, sequence in start.sources.items():
            self.fed[name].go_on_after(sequence, start.epoch)
        for name, end in start.ends.items():
            self.fed[name].end = end
        self._all_ended = start.all_ended
        self._recovered = start.epoch
        self.open = self._next_epoch()
        if start.ends or start.all_ended:
            self._end_if_all_ended(0)

    def _next_epoch(self) -> Epoch:
        first = {name: source.sealed + 1 for name, source in self.fed.items()}
        last = {name: source.sealed for name, source in self.fed.items()}
        return Epoch(self.sealed + 1, first, last)

    # ------------------------------------------------------------------------------------------------ sources

    def source(self, name: str) -> SourceLedger:
        """The fed source of this name. Without an exact match, case is ignored if the name is still unambiguous."""
        return self.fed[fed_source(name, self.fed, self.static)]

    def _name(self, name: str) -> str:
        return self.source(name).name

    def _resolve(self, through: Mapping[str, int] | None) -> dict[str, int]:
        resolved = {}
        for name, last in (through or {}).items():
            if last < 0:
                raise InvalidRequest(f"through[{name!r}]={last} must be 0 or a split's number")
            resolved[self.source(name).name] = last
        return resolved

    # ------------------------------------------------------------------------------------------------- splits

    def locate(self, name: str, sequence: int | None, epoch: int | None) -> tuple[SourceLedger, int, int]:
        """The source, number and epoch of a split with this description, if it may be added or is a duplicate."""
        source = self.source(name)
        number = source.number(sequence)
        belongs = self._epoch_of(source, number)
        if epoch is not None and epoch < belongs == self._start:
            belongs = epoch  # a task does not know the epochs before its start
        if epoch is not None and epoch != belongs:
            raise Refused(
                f"split {number} of source {source.name!r} names epoch {epoch}, but it belongs to epoch {belongs}: "
                "name that epoch, or none",
                reason="WRONG_EPOCH",
            )
        if not source.has(number):
            self._may_add(source, number, belongs)
        return source, number, belongs

    def _may_add(self, source: SourceLedger, number: int, epoch: int) -> None:
        source.check_not_beyond_end(number)
        if self.max_pending_epochs == 1 and epoch == self.open.number and self._unread:
            raise Refused(
                f"epoch {self.sealed} is at its barrier and max_pending_epochs is 1: read its BARRIER first, then "
                "add splits",
                reason="BARRIER_IN_PROGRESS",
            )
        self.check_room(1)

    def check_room(self, splits: int) -> None:
        """Raise `Exhausted` if there is no room for `splits` more.

        A task without splits takes as many as a request has.
        """
        if not (held := sum(len(source.splits) for source in self.fed.values())) or held + splits <= self._most_splits:
            return
        waits = f"{held:,} splits wait, and queue_bytes allows {self._most_splits:,}, however small the splits are"
        if self.has_unsealed:
            raise Exhausted(f"{waits}: request a barrier, or raise queue_bytes", reason="WAITS_FOR_SEAL")
        raise Exhausted(f"{waits}: read and acknowledge, then add more", reason="OUTPUT_UNREAD")

    def _epoch_of(self, source: SourceLedger, number: int) -> int:
        return self.open.number if number > source.sealed else source.epochs.of(number)

    def add(self, split: AcceptedSplit, now_us: int) -> Added:
        """Record a split that `locate` has allowed, and that has come at `now_us` (microseconds since 1970)."""
        added = self._enter(split, now_us)
        self._end_if_all_ended(now_us)
        return added

    def epoch_of(self, split: AcceptedSplit) -> int:
        """The number of the epoch of a split in the ledger."""
        return self._epoch_of(self.fed[split.source], split.sequence)

    def _enter(self, split: AcceptedSplit, now_us: int) -> Added:
        source = self.fed[split.source]
        source.add(split)
        epoch = self._epoch_of(source, split.sequence)
        if epoch == self.open.number and self.open.clock_us is None:
            self.open.clock_us = now_us
        return Added(sequence=split.sequence, duplicate=False, epoch=epoch)

    # -------------------------------------------------------------------------------------------- transactions

    def may_commit(self, splits: Sequence[AcceptedSplit], epoch: int | None, *, seals: bool) -> bool:
        """True if the transaction may be committed.

        False if its splits' numbers are not the next of the open epoch any more.

        Raises `Refused` or `Exhausted` if the transaction cannot be committed now.
        """
        if epoch is not None and epoch != self.open.number:
            raise Refused(f"epoch {epoch} is named, but the open epoch is {self.open.number}", reason="WRONG_EPOCH")
        following = {name: source.last + 1 for name, source in self.fed.items()}
        for split in splits:
            self._may_add(self.fed[split.source], split.sequence, self.open.number)
            if split.sequence != following[split.source]:
                return False
            following[split.source] += 1
        if seals:
            self.check_may_seal()
        return True

    def commit(
        self,
        transaction: Transaction,
        splits: Sequence[AcceptedSplit],
        digest: str,
        seal: Seal | None,
        now_us: int,
    ) -> tuple[Record, list[Added]]:
        """Record everything that a transaction does. `may_commit` has allowed it before."""
        first: dict[str, int] = {}
        for split in splits:
            first.setdefault(split.source, split.sequence)
        record = Record(
            application=transaction.application,
            version=transaction.version,
            epoch=self.open.number,
            digest=digest,
            first=first,
        )
        added = [self._enter(split, now_us) for split in splits]
        if seal is not None:
            said = said_by_barrier(seal, self._name)
            self._seal({name: source.last for name, source in self.fed.items()}, now_us, seal.checkpoint, said)
        self.transactions.record(record, self.finished)
        self._end_if_all_ended(now_us)
        return record, added

    # ------------------------------------------------------------------------------------------------ barriers

    @property
    def pending(self) -> int:
        """The number of sealed epochs whose BARRIER has not been read."""
        return self.sealed - self.barrier_read

    @property
    def _unread(self) -> int:
        """As `pending`, without epochs of before a recovery, which may have been read."""
        return self.sealed - max(self.barrier_read, self._recovered)

    @property
    def has_unsealed(self) -> bool:
        return any(source.highest > source.sealed for source in self.fed.values())

    def request_barrier(self, epoch: int | None, seal: Seal, now_us: int) -> tuple[int, bool]:
        """The number of the epoch that the request seals or joins, and True if the request sealed it."""
        said = said_by_barrier(seal, self._name)
        if epoch is not None:
            if epoch < 1:
                raise InvalidRequest(f"epoch={epoch} must be at least 1: epochs count from 1")
            if epoch <= self.sealed:
                return self._join(epoch, seal.checkpoint, said), False
            if epoch > self.open.number:
                raise Refused(
                    f"epoch {epoch} cannot be sealed: the open epoch is {self.open.number}", reason="EPOCH_AHEAD"
                )
        bounds = self._bounds_through(seal.through)
        self._check_not_ended()
        if (
            epoch is None
            and (self.pending or (seal.after is not None and self.sealed > seal.after))
            and all(bounds[name] <= source.sealed for name, source in self.fed.items())
            and self._can_take(self.sealed, seal.checkpoint)
            and self._wishes.has_said(self.sealed, said)
        ):
            return self._join(self.sealed, seal.checkpoint, said), False
        self.check_may_seal()
        return self._seal(bounds, now_us, seal.checkpoint, said), True

    def _check_not_ended(self) -> None:
        if self.ended:
            raise Refused(
                f"all sources have ended; epoch {self.sealed} was the last, and there is no further barrier",
                reason="TASK_ENDED",
            )

    def check_may_seal(self) -> None:
        """Raise what keeps the open epoch from being sealed now."""
        self._check_not_ended()
        if self._unread >= self.max_pending_epochs:
            raise Exhausted(
                f"{self._unread} sealed epochs are unread and max_pending_epochs is {self.max_pending_epochs}: read "
                f"to the BARRIER of epoch {self.barrier_read + 1} first, then seal",
                reason="TOO_MANY_PENDING_EPOCHS",
            )
        if len(self._bounds) >= self._most_epochs:
            raise Exhausted(
                f"{len(self._bounds):,} epochs are not acknowledged, and queue_bytes allows {self._most_epochs:,}: "
                "acknowledge epochs that were read, then seal",
                reason="OUTPUT_UNREAD",
            )

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that were requested of epochs that are not acknowledged."""
        return len(self._wishes.checkpoints)

    def checkpoint(self, epoch: int) -> str | None:
        """The name of the checkpoint to take at the barrier of this epoch."""
        return self._wishes.checkpoints.get(epoch)

    def _can_take(self, epoch: int, checkpoint: str | None) -> bool:
        """True if a sealed epoch has a checkpoint of this name, or can still get one."""
        taken = self._wishes.checkpoint(epoch)
        if checkpoint is None or taken is not None:
            return checkpoint in (None, "", taken)
        return any(open_epoch.number == epoch for open_epoch in self.epochs)

    def _join(self, epoch: int, checkpoint: str | None, said: Said) -> int:
        if epoch in self._bounds:
            self._wishes.check_said(epoch, said)
        if not self._can_take(epoch, checkpoint):
            raise checkpoint_too_late(epoch)
        self._wishes.wish(epoch, checkpoint)
        return epoch

    def _bounds_through(self, through: Mapping[str, int] | None) -> dict[str, int]:
        """The last split number of each source that a seal takes."""
        bounds = {name: source.last for name, source in self.fed.items()}
        for name, last in self._resolve(through).items():
            self.fed[name].check_seals_at(last)
            bounds[name] = last
        return bounds

    def _seal(self, bounds: dict[str, int], now_us: int, checkpoint: str | None = None, said: Said = NOTHING) -> int:
        epoch = self.open
        epoch.last, epoch.said = bounds, said
        self._wishes.note(epoch.number, checkpoint, said)
        ends = ((name, source.end) for name, source in self.fed.items())
        epoch.ended = frozenset(name for name, end in ends if end is not None and bounds[name] >= end)
        epoch.sealed_ns = time.monotonic_ns()
        if epoch.clock_us is None:
            epoch.clock_us = now_us
        self.epochs.append(epoch)
        self._bounds[epoch.number] = bounds
        self.sealed = epoch.number
        for name, source in self.fed.items():
            source.seal(epoch.number, bounds[name])
        self.open = self._next_epoch()
        return epoch.number

    # ----------------------------------------------------------------------------------------------------- end

    def no_more_splits(self, name: str | None, through: Mapping[str, int] | None, now_us: int) -> EndedSources | None:
        """End one source, or all sources. With `through`, they end at the numbers that it names.

        Returns the sources that the call has ended; None if they had ended before.
        """
        resolved = self._resolve(through)
        ending = [self.source(name)] if name is not None else list(self.fed.values())
        stray = [other for other in resolved if other not in {source.name for source in ending}]
        if stray:
            raise InvalidRequest(f"through names source {stray[0]!r}, but the call ends only source {name!r}")
        ends = {source.name: source.end_at(resolved.get(source.name)) for source in ending}
        known = all(source.end is not None for source in ending) and (self._all_ended or name is not None)
        for source in ending:
            source.end = ends[source.name]
        self._all_ended = self._all_ended or name is None
        self._end_if_all_ended(now_us)
        return None if known else EndedSources(ends=ends, all=name is None)

    def _end_if_all_ended(self, now_us: int) -> None:
        """Once every source is complete to its end: seal the splits that are not sealed, and end."""
        if self.ended or not (self._all_ended or self.fed) or not all(source.whole for source in self.fed.values()):
            return
        if self.has_unsealed or (not self.sealed and self.static_alone_unread):
            self._seal({name: source.last for name, source in self.fed.items()}, now_us)
        self.ended = True

    @property
    def static_alone_unread(self) -> bool:
        """True if nothing was sealed, so that no epoch has read the static sources."""
        return bool(self.static) or not self.fed

    def waits_for(self) -> dict[str, tuple[int, ...]]:
        """The split numbers that the oldest unfinished sealed epoch waits for, or else those that the end waits for."""
        if self.epochs:
            return self.missing(self.epochs[0])
        if self.fed and all(source.end is not None for source in self.fed.values()):
            return _some({name: source.missing(source.end or 0) for name, source in self.fed.items()})
        return {}

    def missing(self, epoch: Epoch) -> dict[str, tuple[int, ...]]:
        """The split numbers that this sealed epoch waits for."""
        if all(source.complete >= epoch.last[name] for name, source in self.fed.items()):
            return {}
        return _some({name: source.missing(epoch.last[name]) for name, source in self.fed.items()})

    # ------------------------------------------------------------------------------------------------ recovery

    def sealed_epoch(self, epoch: int) -> SealedEpoch:
        """The seal of an epoch that is not acknowledged."""
        return SealedEpoch(
            epoch=epoch,
            last=dict(self._bounds[epoch]),
            checkpoint=self.checkpoint(epoch),
            said=self._wishes.said(epoch),
        )

    def repeat(self, change: Change) -> None:
        """Make a change that was made before. Nothing is checked again; what the ledger has already stays as it is."""
        for split, _ in change.splits:
            if not self.fed[split.source].has(split.sequence):
                self._enter(split, change.at_us)
        if change.transaction is not None:
            self.transactions.record(change.transaction, self.finished)
        if change.ended is not None:
            for name, end in change.ended.ends.items():
                self.fed[name].end = end
            self._all_ended = self._all_ended or change.ended.all
        if change.seal is not None:
            if change.seal.epoch > self.sealed:
                self._seal(dict(change.seal.last), change.at_us, said=change.seal.said)
            self._wishes.wish(change.seal.epoch, change.seal.checkpoint)
        if change.failure is not None:
            self.failures.known[change.failure.epoch] = change.failure
        if change.recovered is not None:
            self.failures.recover(change.recovered, self.fed)
        self._end_if_all_ended(change.at_us)

    def recovered(self) -> None:
        """Go on from here: the ledger has all changes that it had before.

        It does not know which barriers were read, so epochs that are sealed now keep no others from being sealed.
        """
        self._recovered = self.sealed

    # ------------------------------------------------------------------------------------------------ progress

    def current(self) -> Epoch:
        """The oldest epoch that is not finished: a sealed one, or the open one."""
        return self.epochs[0] if self.epochs else self.open

    def available(
        self, epoch: Epoch, name: str, *, after: int = 0, at_most: int | None = None
    ) -> tuple[AcceptedSplit, ...]:
        """The splits of a source in this epoch that follow number `after` without a gap."""
        source = self.fed[name]
        first = max(after + 1, epoch.first[name])
        last = min(epoch.last[name], source.complete) if epoch.sealed else source.complete
        if at_most is not None:
            last = min(last, first + at_most - 1)
        return tuple(source.splits[number] for number in range(first, last + 1))

    def splits_of(self, epoch: Epoch) -> list[AcceptedSplit]:
        """All splits of a sealed epoch, which must be complete."""
        return [
            source.splits[number]
            for name, source in self.fed.items()
            for number in range(epoch.first[name], epoch.last[name] + 1)
        ]

    def finish(self, epoch: Epoch) -> list[AcceptedSplit]:
        """Record that the epoch has reached its barrier; its splits, whose data nobody needs any more."""
        self.epochs.remove(epoch)
        self.finished = epoch.number
        for name, source in self.fed.items():
            source.finished = epoch.last[name]
        return self.splits_of(epoch)

    def read(self, epoch: int) -> None:
        """Record that the BARRIER of this epoch has been handed out."""
        self.barrier_read = max(self.barrier_read, epoch)

    def forget(self, epoch: int) -> list[AcceptedSplit]:
        """Record that every epoch below `epoch` is acknowledged; their splits, which leave the book."""
        gone: list[AcceptedSplit] = []
        for number in [number for number in self._bounds if number < epoch]:
            bounds = self._bounds.pop(number)
            self._wishes.forget(number)
            self.failures.known.pop(number, None)
            for name, source in self.fed.items():
                gone += source.forget(bounds[name])
        self.read(epoch - 1)
        return gone

    @property
    def done(self) -> bool:
        """True once the task has ended and every epoch has reached its barrier."""
        return self.ended and not self.epochs


def _some(missing: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: numbers for name, numbers in missing.items() if numbers}

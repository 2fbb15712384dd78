"""A change of a ledger as a value: everything that is needed to make the same change again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...proto.encoding.number_ranges import LARGEST
from .barrier_wishes import Said, Wishes
from .split_book import AcceptedSplit
from .transactions import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedEpoch:
    """An epoch that was sealed at the splits `last`, or a sealed epoch whose checkpoint was requested.

    In the latter case `last` is empty.
    """

    epoch: int
    last: Mapping[str, int]
    checkpoint: str | None = None
    said: Said = field(default_factory=dict)

    def wishes_behind(self, epoch: int, wishes: Wishes) -> Wishes:
        """The wishes of the barrier of this epoch, which had these ones before."""
        if self.epoch != epoch:
            return wishes
        return Wishes(checkpoint=wishes.checkpoint or self.checkpoint, said=wishes.said or self.said)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSources:
    """Sources that were ended, with the last split of each. `all` says that one call ended all sources."""

    ends: Mapping[str, int]
    all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEpoch:
    """An epoch that failed. Computed again, it fails in the same way."""

    epoch: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A split of an epoch that has no rows, because its task was recovered without it."""

    source: str
    sequence: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A task that had failed goes on. `epoch` had failed; 0 if the task had failed of something else. `request` is the
    caller's key.
    """

    epoch: int
    left_out: Sequence[LeftOut] = ()
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that happened at `at_us`, in microseconds since 1970.

    Each of `splits` is with the number of the epoch that it became a part of. `seal` is also the seal that the change
    caused, because with it all sources were complete. `cancelled` says that a caller cancelled the task. `read_by` is
    the number of a reader, of several, that needs the task no more; 0 if the change is another one.
    """

    at_us: int
    splits: Sequence[tuple[AcceptedSplit, int]] = ()
    seal: SealedEpoch | None = None
    ended: EndedSources | None = None
    transaction: Record | None = None
    cancelled: bool = False
    failure: FailedEpoch | None = None
    recovered: Recovered | None = None
    read_by: int = 0

    def after(self, epoch: int) -> Change:
        """The part of the change that belongs to later epochs than this one."""
        seal, transaction = self.seal, self.transaction
        return replace(
            self,
            splits=[split for split in self.splits if split[1] > epoch],
            seal=seal if seal is not None and seal.epoch > epoch else None,
            failure=self.failure if self.failure is not None and self.failure.epoch > epoch else None,
            transaction=transaction if transaction is not None and transaction.epoch > epoch else None,
        )

    @property
    def last_epoch(self) -> int:
        """The last epoch that the change is a part of; 0 if it is part of none. A cancellation is a part of
        all epochs that would come.
        """
        if self.cancelled:
            return LARGEST
        epochs = [epoch for _, epoch in self.splits]
        if self.seal is not None:
            epochs.append(self.seal.epoch)
        if self.transaction is not None:
            epochs.append(self.transaction.epoch)
        if self.failure is not None:
            epochs.append(self.failure.epoch)
        if self.recovered is not None:
            epochs += [self.recovered.epoch, *(split.epoch for split in self.recovered.left_out)]
        return max(epochs, default=0)

"""A change of a ledger as a value: everything that is needed to make the same change again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSources:
    """Sources that were ended, with the last split of each. `all` says that one call ended all sources."""

    ends: Mapping[str, int]
    all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that happened at `at_us`, in microseconds since 1970.

    Each of `splits` is with the number of the epoch that it became a part of. `seal` is also the seal that the change
    caused, because with it all sources were complete. `cancelled` says that a caller cancelled the task.
    """

    at_us: int
    splits: Sequence[tuple[AcceptedSplit, int]] = ()
    seal: SealedEpoch | None = None
    ended: EndedSources | None = None
    transaction: Record | None = None
    cancelled: bool = False

    def after(self, epoch: int) -> Change:
        """The part of the change that belongs to later epochs than this one."""
        seal, transaction = self.seal, self.transaction
        return replace(
            self,
            splits=[split for split in self.splits if split[1] > epoch],
            seal=seal if seal is not None and seal.epoch > epoch else None,
            transaction=transaction if transaction is not None and transaction.epoch > epoch else None,
        )

    @property
    def last_epoch(self) -> int:
        """The last epoch that the change is a part of; 0 if it is part of none."""
        epochs = [epoch for _, epoch in self.splits]
        if self.seal is not None:
            epochs.append(self.seal.epoch)
        if self.transaction is not None:
            epochs.append(self.transaction.epoch)
        return max(epochs, default=0)

"""An epoch in the ledger of a task, and the position at which a new or restored ledger starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from .barrier_wishes import NO_WISHES, Said, Wishes
from .transactions import Record


class Commit(Protocol):
    """A commit of the journal, which holds a change of the ledger."""

    @property
    def durable(self) -> bool:
        """True once the change survives the end of the process."""
        ...


def is_durable(commit: Commit | None) -> bool:
    """True if a change is durable. A change without a commit is of a task that is not journaled."""
    return commit is None or commit.durable


@dataclass(slots=True, eq=False)
class Epoch:
    """An epoch: `first` and `last` are split numbers per source; last < first if the source has no split in it.

    `ended` are the sources that had ended when the epoch was sealed, `said` is what its barrier said of sources.
    `clock_us` is the time that the epoch sees: the time of its first split, or of its seal if it has no split. `commit`
    holds its seal and all of its splits.
    """

    number: int
    first: dict[str, int]
    last: dict[str, int]
    clock_us: int | None = None
    sealed_ns: int | None = None
    ended: frozenset[str] = frozenset()
    said: Said = field(default_factory=dict)
    commit: Commit | None = None

    @property
    def sealed(self) -> bool:
        return self.sealed_ns is not None

    @property
    def splits(self) -> int:
        return sum(self.last[name] - first + 1 for name, first in self.first.items())


@dataclass(frozen=True, slots=True)
class Start:
    """The position where a task begins: behind the barrier of `epoch`.

    It has the last split number of each source, the last transaction of each application, and the sources that had
    ended, at that barrier: `ends` has the last split of each, and `all_ended` says that one call ended all. `wishes`
    are those of the barrier, by which a repeated request for it is known.
    """

    epoch: int = 0
    sources: Mapping[str, int] = field(default_factory=dict)
    transactions: tuple[Record, ...] = ()
    ends: Mapping[str, int] = field(default_factory=dict)
    all_ended: bool = False
    wishes: Wishes = NO_WISHES


FIRST = Start()

"""An epoch in the ledger of a task, and the position at which a new or restored ledger starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .transactions import Record


@dataclass(slots=True, eq=False)
class Epoch:
    """An epoch: `first` and `last` are split numbers per source; last < first if the source has no split in it.

    `ended` are the sources that had ended when the epoch was sealed. `clock_us` is the time that the epoch sees: the
    time of its first split, or of its seal if it has no split.
    """

    number: int
    first: dict[str, int]
    last: dict[str, int]
    clock_us: int | None = None
    sealed_ns: int | None = None
    ended: frozenset[str] = frozenset()

    @property
    def sealed(self) -> bool:
        return self.sealed_ns is not None

    @property
    def splits(self) -> int:
        return sum(self.last[name] - first + 1 for name, first in self.first.items())


@dataclass(frozen=True, slots=True)
class Start:
    """The position where a task begins: behind the barrier of `epoch`.

    It has the last split number of each source, and the last transaction of each application, at that barrier.
    """

    epoch: int = 0
    sources: Mapping[str, int] = field(default_factory=dict)
    transactions: tuple[Record, ...] = ()


FIRST = Start()

"""An epoch in the book of a task, and where the book begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .transactions import Record


@dataclass(slots=True, eq=False)
class Epoch:
    """`first` and `last` are split numbers per source, last < first where the epoch has none of it.

    `ended` are the sources that had ended when it was sealed. `clock_us` is the time the epoch sees: of its first
    split, or of its seal when it has none.
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
    """Where a task begins: behind the barrier of `epoch`, with the last number of each source and the last transaction
    of each application by then.
    """

    epoch: int = 0
    sources: Mapping[str, int] = field(default_factory=dict)
    transactions: tuple[Record, ...] = ()


FIRST = Start()

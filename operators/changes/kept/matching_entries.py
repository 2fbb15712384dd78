"""The result of a look-up in an arrangement: the entries that have the wanted keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np

from ..values.change import Change, ManyRounds, Numbers
from ..values.rows import Rows
from ..values.value_columns import Index

History: TypeAlias = tuple[Index, ManyRounds]
"""The history of keys: the keys of entries, and the times at which the entries came in."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchingEntries:
    """Kept entries, each with the number of the wanted row that has its key. Another entry here may undo an entry of
    the past, so only the sums have a meaning.
    """

    asked: Index
    rows: Rows
    weights: Numbers
    rounds: ManyRounds

    def __len__(self) -> int:
        return len(self.asked)

    @classmethod
    def of(cls, asked: Index, entries: Change) -> Self:
        return cls(asked, entries.rows, entries.weights, entries.rounds)

    @classmethod
    def concat(cls, parts: Sequence[MatchingEntries]) -> MatchingEntries:
        """All entries of the parts, of which there is at least one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.asked for part in parts]),
            Rows.concat([part.rows for part in parts]),
            np.concatenate([part.weights for part in parts]),
            tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True)),
        )

    def take(self, which: Index) -> MatchingEntries:
        rounds = tuple(number[which] for number in self.rounds)
        return MatchingEntries(self.asked[which], self.rows.take(which), self.weights[which], rounds)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Entries that count at a time, without their rounds, some of them summed; and the history of the keys. Only the
    part of the history that may count later than that time is sure to be in it.
    """

    now: MatchingEntries
    history: History

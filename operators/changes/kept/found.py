"""Found: what an arrangement has for keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np

from ..values.change import Change, ManyRounds, Numbers
from ..values.rows import Rows
from ..values.value_columns import Index

History: TypeAlias = tuple[Index, ManyRounds]
"""Of which key something came in, and when."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Kept entries beside which of the rows that were asked for has their key. An entry of the past may be undone by
    another one here: what is wanted is the sum.
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
    def concat(cls, parts: Sequence[Found]) -> Found:
        """All entries of the parts, of which there is at least one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.asked for part in parts]),
            Rows.concat([part.rows for part in parts]),
            np.concatenate([part.weights for part in parts]),
            tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True)),
        )

    def take(self, which: Index) -> Found:
        rounds = tuple(number[which] for number in self.rounds)
        return Found(self.asked[which], self.rows.take(which), self.weights[which], rounds)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Entries that count at a time, without their rounds, some of them summed; and the history of the keys, of which
    only what may count later than that is sure to be in it.
    """

    now: Found
    history: History

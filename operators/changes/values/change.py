"""A change: rows, each with its weight and with the round of every loop that counts rounds around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .rows import Rows, joined
from .value_columns import Index, column

Numbers: TypeAlias = npt.NDArray[np.int64]
Rounds: TypeAlias = tuple[int, ...]
"""A time: a round of each loop from the outermost to the innermost; () where no loop counts rounds."""
ManyRounds: TypeAlias = tuple[Numbers, ...]
"""A time for each row: an array for each loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change: rows with weights. The same row may be in it more than once. A consolidated change has no weight of
    0.
    """

    rows: Rows
    weights: Numbers
    rounds: ManyRounds = ()
    consolidated: bool = False
    """True where it is known that at each time all rows are different, and no weight is 0."""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + int(self.weights.nbytes) + sum(int(numbers.nbytes) for numbers in self.rounds)

    def take(self, rows: Index) -> Change:
        """Different rows of the change, by their positions."""
        rounds = tuple(number.take(rows) for number in self.rounds)
        return Change(self.rows.take(rows), take_weights(self.weights, rows), rounds, self.consolidated)

    def with_rows(self, rows: Rows) -> Change:
        return Change(rows, self.weights, self.rounds)

    def negated(self) -> Change:
        return Change(self.rows, -self.weights, self.rounds, self.consolidated)

    def at(self, rounds: Rounds) -> Change:
        """All rows of a change without rounds, at one time."""
        if not rounds:
            return self
        return Change(self.rows, self.weights, constant_rounds(rounds, len(self)), self.consolidated)

    @classmethod
    def concat(cls, parts: Sequence[Change]) -> Change:
        """All rows of the parts, of which there is at least one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            Rows.concat([part.rows for part in parts]),
            np.concatenate([part.weights for part in parts]),
            tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True)),
        )

    @classmethod
    def joined(cls, parts: list[Change]) -> Change:
        """`concat` of parts that are handed over: the list is emptied, and no rows are in memory twice."""
        if len(parts) == 1:
            return parts.pop()
        weights = np.concatenate([part.weights for part in parts])
        rounds = tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True))
        rows = [part.rows for part in parts]
        parts.clear()
        return cls(joined(rows), weights, rounds)

    @classmethod
    def scattered(cls, parts: list[Change]) -> Change:
        """`joined` that leaves wide values where they are: the parts stay in memory as long as the change."""
        rows = Rows.scattered([part.rows for part in parts])
        if rows is None:
            return cls.joined(parts)
        weights = np.concatenate([part.weights for part in parts])
        rounds = tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True))
        parts.clear()
        return cls(rows, weights, rounds)

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch, weights: Numbers | None = None) -> Change:
        """A batch's rows outside any loop, each +1 if no weights are given."""
        if weights is None:
            weights = ones(batch.num_rows)
        return cls(Rows([column(array) for array in batch.columns], batch.num_rows), weights)


_ONES: Final[Numbers] = np.ones(1 << 16, dtype=np.int64)
_ONES.flags.writeable = False


def ones(count: int) -> Numbers:
    """An array of so many weights of 1, which must not be modified."""
    return _ONES[:count] if count <= len(_ONES) else np.ones(count, dtype=np.int64)


def all_one(weights: Numbers) -> bool:
    """True where each weight is 1, as in most changes: then no sum can overflow."""
    return weights.base is _ONES or int(np.count_nonzero(weights == 1)) == weights.size


_LARGE: Final = 1 << 31
"""A row with so many copies cannot be summed."""


def has_large_weights(change: Change) -> bool:
    """True where a row has too many copies to be summed."""
    return len(change) > 0 and max(int(change.weights.max()), -int(change.weights.min())) >= _LARGE


def take_weights(weights: Numbers, rows: Index) -> Numbers:
    """The weights of these rows."""
    return ones(len(rows)) if weights.base is _ONES else weights.take(rows, axis=0)


def constant_rounds(rounds: Rounds, count: int) -> ManyRounds:
    return tuple(np.full(count, number, dtype=np.int64) for number in rounds) if rounds else ()


def later(left: ManyRounds, right: ManyRounds) -> ManyRounds:
    """The least time that is at or after both, pair by pair."""
    return tuple(np.maximum(mine, theirs) for mine, theirs in zip(left, right, strict=True))


def by_rounds(rounds: ManyRounds) -> list[tuple[Rounds, Index | None]]:
    """The different times and the rows of each one; None stands for all rows. There must be a row."""
    if not rounds:
        return [((), None)]
    firsts = tuple(int(number[0]) for number in rounds)
    if len(rounds[0]) == 1 or all(
        np.count_nonzero(number == first) == len(number) for number, first in zip(rounds, firsts, strict=True)
    ):
        return [(firsts, None)]
    order = np.lexsort(rounds[::-1])
    changes = np.zeros(len(order) - 1, dtype=np.bool_)
    for number in rounds:
        ordered = number[order]
        changes |= ordered[1:] != ordered[:-1]
    groups = np.split(order, np.flatnonzero(changes) + 1)
    return [(tuple(int(number[group[0]]) for number in rounds), group) for group in groups]

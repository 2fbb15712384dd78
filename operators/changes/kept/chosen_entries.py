"""Entries chosen for a look-up. Wide rows stay in their runs until it is known which of them are wanted, and in which
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..values.change import ManyRounds, Numbers
from ..values.consolidate import Entries
from ..values.rows import Rows
from ..values.scattered_column import has_wide
from ..values.value_columns import Index
from .matching_entries import MatchingEntries
from .packed_words import PackedRun


@dataclass(frozen=True, slots=True, eq=False)
class ChosenEntries:
    """The entries `at` positions of `rows` (all rows, if `at` is None), each with the number of the wanted row that has
    its key. As with `MatchingEntries`, only the sums have a meaning.
    """

    asked: Index
    rows: Rows
    at: Index | None
    weights: Numbers
    rounds: ManyRounds

    @classmethod
    def of(cls, matches: Iterable[tuple[Entries | PackedRun, Index, Index]], nothing: MatchingEntries) -> ChosenEntries:
        """Entries of runs: for each run the wanted rows and the positions. `nothing` stands for none."""
        parts = [_chosen(run, asked, at) for run, asked, at in matches]
        return cls.joined(parts) if parts else cls.all_of(nothing)

    @classmethod
    def all_of(cls, matches: MatchingEntries) -> ChosenEntries:
        return cls(matches.asked, matches.rows, None, matches.weights, matches.rounds)

    @classmethod
    def joined(cls, parts: Sequence[ChosenEntries]) -> ChosenEntries:
        """The entries of all parts, of which there is at least one."""
        if len(parts) == 1:
            return parts[0]
        asked = np.concatenate([part.asked for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        rounds = tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True))
        rows = Rows.scattered([part.rows for part in parts])
        if rows is None:
            return cls(asked, Rows.concat([part.taken() for part in parts]), None, weights, rounds)
        ahead = np.cumsum([0, *(len(part.rows) for part in parts[:-1])]).tolist()
        positions = [part.at_all() + number for part, number in zip(parts, ahead, strict=True)]
        return cls(asked, rows, np.concatenate(positions), weights, rounds)

    def __len__(self) -> int:
        return len(self.asked)

    def at_all(self) -> Index:
        """The position of each entry."""
        return np.arange(len(self.rows)) if self.at is None else self.at

    def take(self, which: Index) -> ChosenEntries:
        at = which if self.at is None else self.at.take(which)
        rounds = tuple(number.take(which) for number in self.rounds)
        return ChosenEntries(self.asked.take(which), self.rows, at, self.weights.take(which, axis=0), rounds)

    def taken(self) -> Rows:
        """The rows of the entries."""
        return self.rows if self.at is None else self.rows.take(self.at)


def _chosen(run: Entries | PackedRun, asked: Index, at: Index) -> ChosenEntries:
    if isinstance(run, Entries) and has_wide(run.rows.columns, len(at)):
        numbers = run.pick(at, ())
        return ChosenEntries(asked, run.rows, at, numbers.weights, numbers.rounds)
    some = run.pick(at)
    return ChosenEntries(asked, some.rows, None, some.weights, some.rounds)

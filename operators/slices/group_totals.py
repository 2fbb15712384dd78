"""The totals of groups in arrays, with a place for each possible group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..arrays.layout import Flags, Words
from .packed_sums import counts_and_sums

GroupFunction = Literal["sum", "count", "min", "max"]

Pair: TypeAlias = tuple[int | None, int | None]
"""The column of a state's values, and its condition."""
Total: TypeAlias = tuple[Words, Flags | None]
"""A state of groups, and where it is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A state of groups: of the values of the input's column `values`, or of all rows, where the column `condition` is
    true, if there is one.
    """

    function: GroupFunction
    values: int | None
    condition: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupTotals:
    """The states of groups. A place has a group where `rows` is not 0: the number of its rows, or, if `packed`, a word
    of this number and of the sum of its values.
    """

    states: Sequence[GroupState]
    rows: Words
    packed: bool
    valid: Mapping[Pair, Words]
    values: Mapping[int, Words]

    def changed(self, change: Callable[[Words], Words]) -> GroupTotals:
        """The totals whose arrays are made of these arrays, each by itself."""
        return GroupTotals(
            states=self.states,
            rows=change(self.rows),
            packed=self.packed,
            valid={pair: change(counts) for pair, counts in self.valid.items()},
            values={number: change(numbers) for number, numbers in self.values.items()},
        )

    def of(self, at: Words | slice) -> Iterator[Total]:
        """The states of the groups at these places, in order."""
        if self.packed:
            counts, sums = counts_and_sums(self.rows[at])
            yield from ((counts if state.function == "count" else sums, None) for state in self.states)
            return
        for number, state in enumerate(self.states):
            valid = self.valid.get((state.values, state.condition))
            if state.function == "count":
                yield (self.rows if valid is None else valid)[at], None
            else:
                yield self.values[number][at], None if valid is None else valid[at] == 0

"""The rows of an arrangement that exist at a time, sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ....proto.errors import ExecutionError
from ...arrays.ordering import Order
from ...core.interrupts import beside
from ..values.change import Numbers, Rounds
from ..values.consolidate import group_starts, sum_groups
from ..values.order_codes import order_of
from ..values.rows import Rows
from ..values.value_columns import Index
from .chosen_entries import ChosenEntries
from .history import counts_at
from .matching_entries import MatchingEntries

MOST_COPIES: Final = 1 << 27
"""The most rows that a statement is run over: a row with a large weight counts as many."""


@dataclass(frozen=True, slots=True, eq=False)
class Present:
    """Rows of keys, each once. `asked` has each row's key, ascending. Under one key the rows are in order. Weights are
    above 0.
    """

    asked: Index
    rows: Rows
    weights: Numbers

    def copies(self, whose: str) -> Index:
        """The position of each row, once for each of its copies. Raises an error that says `whose`, if there are too
        many.
        """
        total = self.weights.sum(dtype=np.float64)
        if total > MOST_COPIES:
            raise ExecutionError(
                f"{whose} must compute about {total:.0f} rows again at once, copies counted; at most {MOST_COPIES:,} "
                "are allowed: keep fewer rows of a key, or give the rows smaller weights",
                reason="TOO_MANY_COPIES",
            )
        return np.repeat(np.arange(len(self.asked)), self.weights)

    def with_copies(self, whose: str) -> tuple[Rows, Index]:
        """All copies of the rows, and the key of each. Raises the same error."""
        copies = self.copies(whose)
        if len(copies) == len(self.asked):
            return self.rows, self.asked
        return self.rows.take(copies), self.asked[copies]


def present(matches: MatchingEntries | ChosenEntries, time: Rounds, orders: Sequence[Order]) -> Present:
    """The rows that exist at this time: the sums of the entries that count. Rows that are alike in all `orders` must be
    the same.
    """
    rows, at, asked, sums = _sums(matches, time, orders)
    there = np.flatnonzero(sums > 0)
    return Present(asked[there], rows.take(at[there]), sums[there])


def without_deleted(
    matches: MatchingEntries, orders: Sequence[Order], refuse: Callable[[Rows], ExecutionError]
) -> Present:
    """`present` for rows without rounds of which none may be deleted more often than inserted. Raises the error of
    `refuse`, which is asked with the first such row.
    """
    rows, at, asked, sums = _sums(matches, (), orders)
    missing = np.flatnonzero(sums < 0)
    if len(missing):
        raise refuse(rows.take(at[missing[:1]]))
    there = np.flatnonzero(sums)
    return Present(asked[there], rows.take(at[there]), sums[there])


def _sums(
    matches: MatchingEntries | ChosenEntries, time: Rounds, orders: Sequence[Order]
) -> tuple[Rows, Index, Index, Numbers]:
    """Rows, and the positions of the ones that some entry counts for, each once and in order; their keys and their
    sums. The rows stay where they are: they may be long.
    """
    entries = ChosenEntries.all_of(matches) if isinstance(matches, MatchingEntries) else matches
    counted = counts_at(entries.rounds, time)
    if counted is not None:
        entries = entries.take(np.flatnonzero(counted))
    if not len(entries):
        return entries.rows, entries.asked, entries.asked, entries.weights
    at, asked, starts, weights, _ = in_order(entries, orders)
    return entries.rows, at[starts], asked[starts], sum_groups(weights, starts)


class InOrder(NamedTuple):
    """Entries by key, and in order under it: their positions, keys and weights, the first entry of each different row,
    and the number that each entry had.
    """

    at: Index
    asked: Index
    starts: Index
    weights: Numbers
    order: Index


def in_order(entries: ChosenEntries, orders: Sequence[Order]) -> InOrder:
    rows = entries.rows
    order = order_of(rows, orders, after=[entries.asked], at=entries.at)
    at = order if entries.at is None else entries.at.take(order)
    asked = entries.asked.take(order)
    same = (asked[1:] == asked[:-1]) & rows.same(at[1:], rows, at[:-1])
    return InOrder(at, asked, group_starts(~same), entries.weights.take(order), order)


def same_as_before(asked: Index, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row but the first, True where it is the same as the row before it."""
    pairs = np.arange(len(asked) - 1)
    same: np.ndarray[tuple[int], np.dtype[np.bool_]] = asked[1:] == asked[:-1]
    return same & rows.same(pairs + 1, rows, pairs)


def leading(asked: Index) -> Index:
    """The position of each key's first row. The rows of a key are neighbours."""
    return group_starts(asked[1:] != asked[:-1]) if len(asked) else asked


def sums_at(matches: MatchingEntries, time: Rounds, keys: int) -> Numbers:
    """The sums of the entries that count at this time, for each of so many keys."""
    asked, weights = matches.asked, matches.weights
    counted = counts_at(matches.rounds, time)
    if counted is not None:
        asked, weights = asked[counted], weights[counted]
    return beside(lambda: _sums_of(asked, weights, keys), len(asked))


def _sums_of(asked: Index, weights: Numbers, keys: int) -> Numbers:
    """The sums of the weights of each of so many keys. `asked` has the key of each weight."""
    sums = np.zeros((keys, *weights.shape[1:]), dtype=np.int64)
    if not len(asked):
        return sums
    later = asked[1:] > asked[:-1]
    if np.count_nonzero(later) == len(later):
        sums[asked] = weights
        return sums
    order = asked.argsort(kind="stable")
    asked = asked.take(order)
    starts = leading(asked)
    sums[asked[starts]] = sum_groups(weights.take(order, axis=0), starts)
    return sums

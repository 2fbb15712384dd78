"""The rows of an arrangement that exist at a time, sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ....proto.errors import ExecutionError
from ...arrays.ordering import Order
from ...core.interrupts import beside
from ..values.change import Numbers, Rounds
from ..values.consolidate import group_starts, sum_groups
from ..values.order_codes import order_of
from ..values.rows import Rows
from ..values.value_columns import Index
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


def present(matches: MatchingEntries, time: Rounds, orders: Sequence[Order]) -> Present:
    """The rows that exist at this time: the sums of the entries that count. Rows that are alike in all `orders` must be
    the same.
    """
    now, firsts, sums = _sums(matches, time, orders)
    there = np.flatnonzero(sums > 0)
    at = firsts[there]
    return Present(now.asked[at], now.rows.take(at), sums[there])


def without_deleted(
    matches: MatchingEntries, orders: Sequence[Order], refuse: Callable[[Rows], ExecutionError]
) -> Present:
    """`present` for rows without rounds of which none may be deleted more often than inserted. Raises the error of
    `refuse`, which is asked with the first such row.
    """
    now, firsts, sums = _sums(matches, (), orders)
    missing = np.flatnonzero(sums < 0)
    if len(missing):
        raise refuse(now.rows.take(firsts[missing[:1]]))
    there = np.flatnonzero(sums)
    at = firsts[there]
    return Present(now.asked[at], now.rows.take(at), sums[there])


def _sums(matches: MatchingEntries, time: Rounds, orders: Sequence[Order]) -> tuple[MatchingEntries, Index, Numbers]:
    """The entries that count; the first one of each row, in the rows' order; and the rows' sums. The entries stay where
    they are: rows may be long.
    """
    counted = counts_at(matches.rounds, time)
    now = matches if counted is None else matches.take(np.flatnonzero(counted))
    order = order_of(now.rows, orders, after=[now.asked])
    if not len(order):
        return now, order, now.weights
    asked = now.asked[order]
    same = (asked[1:] == asked[:-1]) & now.rows.same(order[1:], now.rows, order[:-1])
    starts = group_starts(~same)
    return now, order[starts], sum_groups(now.weights[order], starts)


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

"""Consolidation: one entry for each different row and time, with the sum of its weights, and no entry where that is
0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from ...arrays.hashing import Hashes, combine_hashes
from ...core.interrupts import beside
from ..kept.packed_key_domain import PackedKeyDomain
from .change import Change, ManyRounds, Numbers, all_one
from .hash_order import order_by_hashes
from .rows import Rows, joined
from .value_columns import Index, Mask

_LARGEST: Final = (1 << 63) - 1
_MANY: Final = 4_096
"""From so many rows on, rows that are single words are sorted as words."""


_NEWEST: Final = 512
"""The newest run is rebuilt with new rows until it has this many rows."""
_FACTOR: Final = 8
"""A run is merged with the next older run when that is less than so many times as long, so that few runs are probed
...
"""
_LARGE: Final = 4_096
_FACTOR_OF_LARGE: Final = 2
"""... and a large run only with a run less than so many times as long, because moving many rows costs more than
probing.
"""

_MOVED: Final = 2_048
"""The bytes of an entry that costs as much to move as a narrow one costs to put in order."""

Same: TypeAlias = Callable[[Index, Index], Mask]
"""True for each pair of the same rows, by their positions."""
Arrange: TypeAlias = Callable[[Rows, Hashes], Index]
"""The order of rows whose keys have these hashes, which is an order of the hashes first."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Entries:
    """Entries: rows in the order of the hash of their key, then of the hash of row and time.

    `weights` has one number for each row, or a row of numbers, which are summed alike.
    """

    key_hashes: Hashes
    hashes: Hashes
    rows: Rows
    weights: Numbers
    rounds: ManyRounds

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Index) -> Entries:
        return self.summed(rows, self.weights.take(rows, axis=0))

    @classmethod
    def joined(cls, parts: list[Entries]) -> Entries:
        """The entries of all parts, in no common order. The list is emptied, as that of `rows.joined` is."""
        key_hashes = np.concatenate([part.key_hashes for part in parts])
        shared = all(part.hashes is part.key_hashes for part in parts)
        hashes = key_hashes if shared else np.concatenate([part.hashes for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        rounds = tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True))
        rows = [part.rows for part in parts]
        parts.clear()
        return cls(key_hashes, hashes, joined(rows), weights, rounds)

    def summed(self, at: Index, weights: Numbers) -> Entries:
        """The entries at these positions, with these weights."""
        key_hashes = self.key_hashes.take(at)
        hashes = key_hashes if self.hashes is self.key_hashes else self.hashes.take(at)
        return Entries(key_hashes, hashes, self.rows.take(at), weights, _take(self.rounds, at))

    def pick(self, at: Index, columns: Sequence[int] | None = None) -> Change:
        """The entries at these positions, with these columns, or with all."""
        rows = self.rows if columns is None else self.rows.select(columns)
        weights = self.weights.take(at, axis=0).astype(np.int64, copy=False)
        rounds = tuple(number.take(at).astype(np.int64, copy=False) for number in self.rounds)
        return Change(rows.take(at) if rows.columns else Rows((), len(at)), weights, rounds)

    def narrowed(self) -> Entries:
        """The same entries in as few bytes as hold their numbers. `pick` returns the numbers as they were."""
        rounds = tuple(map(narrow, self.rounds))
        return Entries(self.key_hashes, self.hashes, self.rows, narrow(self.weights), rounds)

    @property
    def size(self) -> int:
        """The cost of moving the entries: one each, or one for each `_MOVED` of their bytes where these are more."""
        return max(len(self), self.nbytes // _MOVED)

    @property
    def nbytes(self) -> int:
        hashes = self.key_hashes.nbytes + (0 if self.hashes is self.key_hashes else self.hashes.nbytes)
        return int(hashes + self.weights.nbytes + sum(n.nbytes for n in self.rounds)) + self.rows.nbytes


def entries(
    rows: Rows,
    key_hashes: Hashes,
    row_hashes: Hashes,
    weights: Numbers,
    rounds: ManyRounds,
    arrange: Arrange | None = None,
) -> Entries:
    """Consolidated entries of rows in any order, which are put in that of `arrange` if it is given. `row_hashes` may be
    the very `key_hashes` if the key is the row.
    """
    hashes = timed_hashes(row_hashes, rounds)
    return consolidated(Entries(key_hashes, hashes, rows, weights, rounds), arrange=arrange)


def timed_hashes(hashes: Hashes, rounds: ManyRounds) -> Hashes:
    """The hashes of rows and times from those of the rows."""
    for number in rounds:
        hashes = combine_hashes(hashes, number.view(np.uint64))
    return hashes


def consolidated(parts: Entries, *, keep_zeros: bool = False, arrange: Arrange | None = None) -> Entries:
    """The same entries, in order, one for each row and time. Entries that sum to 0 are left out unless `keep_zeros`."""
    if len(parts) <= 1 or _ascending(parts.key_hashes):
        return parts if keep_zeros else without_zeros(parts)
    return beside(lambda: _consolidated(parts, keep_zeros=keep_zeros, arrange=arrange), len(parts))


def _ascending(hashes: Hashes) -> bool:
    """True where the hashes are different and in order; then so are the entries whose keys have them."""
    return int(np.count_nonzero(hashes[1:] > hashes[:-1])) == len(hashes) - 1


def is_consolidated(parts: Entries) -> bool:
    """True only where the entries are consolidated, and in the order of their hashes."""
    if np.count_nonzero(not_zero(parts.weights)) < len(parts):
        return False
    return _ascending(parts.key_hashes) or beside(lambda: _in_order(parts), len(parts))


def _in_order(parts: Entries) -> bool:
    keys = parts.key_hashes
    if np.count_nonzero(keys[1:] >= keys[:-1]) < len(keys) - 1:
        return False
    tied = (keys[1:] == keys[:-1]).nonzero()[0]
    return bool((parts.hashes.take(tied + 1) > parts.hashes.take(tied)).all())


def to_merge(older: int, newer: int) -> bool:
    """True where a run of size `newer` is merged with the next older run, of size `older`."""
    factor = _FACTOR if newer <= _LARGE else _FACTOR_OF_LARGE
    return older <= _NEWEST or (newer > _NEWEST and older < factor * newer)


def narrow(numbers: Numbers) -> Numbers:
    """The same numbers in the smallest type that holds them."""
    if numbers.size:
        least, most = int(numbers.min()), int(numbers.max())
        for dtype in (np.int8, np.int16, np.int32):
            if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
                return numbers.astype(dtype, copy=False)
    return numbers


def without_zeros(parts: Entries) -> Entries:
    """Consolidated entries without those that sum to 0."""
    if np.count_nonzero(parts.weights) == parts.weights.size:
        return parts
    return parts.take(not_zero(parts.weights).nonzero()[0])


def not_zero(weights: Numbers) -> Mask:
    """True for each entry with a number that is not 0."""
    return np.asarray(weights.any(axis=1)) if weights.ndim > 1 else weights != 0


def _consolidated(parts: Entries, *, keep_zeros: bool, arrange: Arrange | None) -> Entries:
    at, weights = positions(parts, "quicksort", keep_zeros=keep_zeros)
    if arrange is not None:
        at, weights = rearranged(arrange(parts.rows, parts.key_hashes), at, weights)
    return parts.summed(at, weights)


def positions(
    parts: Entries, kind: Literal["quicksort", "stable"], *, keep_zeros: bool = False, same: Same | None = None
) -> tuple[Index, Numbers]:
    """The entries that are left where entries of one row and time are summed: their positions, in order, and their
    sums. `same` compares rows by their positions, where the parts' rows are elsewhere.
    """
    order = order_by_hashes(parts.key_hashes, parts.hashes, kind)
    equal = _equal_neighbours(parts, order)
    if np.count_nonzero(equal):
        order, weights = _summed(
            parts, order, equal, same or (lambda one, other: parts.rows.same(one, parts.rows, other))
        )
    else:
        weights = parts.weights.take(order, axis=0)
    if keep_zeros or np.count_nonzero(weights) == weights.size:
        return order, weights
    there = not_zero(weights).nonzero()[0]
    return order.take(there), weights.take(there, axis=0)


def _equal_neighbours(parts: Entries, order: Index) -> Mask:
    """For each entry but the first in this order, True where both of its hashes are those of the one before it."""
    hashes = parts.key_hashes.take(order)
    equal: Mask = hashes[1:] == hashes[:-1]
    if parts.hashes is not parts.key_hashes and np.count_nonzero(equal):
        hashes = parts.hashes.take(order)
        equal &= np.asarray(hashes[1:] == hashes[:-1])
    return equal


def consolidate(change: Change) -> Change:
    """A change with one entry for each row and time, in no order."""
    if change.consolidated:
        return change
    if not change.rounds and len(change) >= _MANY:
        found_as_words = consolidated_as_words(change)
        if found_as_words is not None:
            return found_as_words
    hashes = change.rows.hashes()
    if not change.rounds and beside(lambda: all_different(hashes), len(hashes)):
        # The most common case: all rows are different, and none has to be moved.
        if np.count_nonzero(change.weights) < change.weights.size:
            change = change.take(not_zero(change.weights).nonzero()[0])
        return Change(change.rows, change.weights, consolidated=True)
    summed = entries(change.rows, hashes, hashes, change.weights, change.rounds)
    rows = summed.rows if change.rounds else summed.rows.hashed(summed.hashes)
    return Change(rows, summed.weights, summed.rounds, consolidated=True)


def consolidated_as_words(change: Change) -> Change | None:
    """`consolidate` of rows that are single words, without rounds, into canonical order; None if they are not."""
    return beside(lambda: _consolidated_as_words(change), len(change))


def _consolidated_as_words(change: Change) -> Change | None:
    domain = PackedKeyDomain.around(change.rows)
    positions = None if domain is None else domain.positions(change.rows)
    if domain is None or positions is None:
        return None
    weights = change.weights
    if all_one(weights):
        positions.sort()
    else:
        order = positions.argsort()
        positions, weights = positions.take(order), weights.take(order, axis=0)
    differs = positions[1:] != positions[:-1]
    if np.count_nonzero(differs) < len(differs):
        starts = group_starts(differs)
        positions, weights = positions.take(starts), sum_groups(weights, starts)
    if np.count_nonzero(weights) < weights.size:
        there = not_zero(weights).nonzero()[0]
        positions, weights = positions.take(there), weights.take(there, axis=0)
    return Change(domain.rows(positions), weights, consolidated=True)


def all_different(hashes: Hashes) -> bool:
    """True where no two hashes are alike."""
    if len(hashes) == 1:
        return True
    ordered = np.sort(hashes)
    return not np.count_nonzero(ordered[1:] == ordered[:-1])


def added(left: Numbers, right: Numbers) -> Numbers:
    """The sums, number by number. Raises OverflowError where one is no int64."""
    sums = left + right
    if np.count_nonzero(((left ^ sums) & (right ^ sums)) < 0):
        exact = left.astype(object) + right.astype(object)
        raise OverflowError(f"the weights of one row sum to {max(exact.flat, key=abs)}, which is beyond 64 bits")
    return sums


def sum_groups(weights: Numbers, starts: Index) -> Numbers:
    """The sums of the groups that start at `starts`, the first of them at 0; OverflowError where one is no int64."""
    sums: Numbers = np.add.reduceat(weights, starts, axis=0)
    if all_one(weights):
        return sums
    if max(int(weights.max()), -int(weights.min())) > _LARGEST // len(weights):
        exact = np.add.reduceat(weights.astype(object), starts, axis=0)
        if bool((exact != sums).any()):
            raise OverflowError(f"the weights of one row sum to {max(exact.flat, key=abs)}, which is beyond 64 bits")
    return sums


def group_starts(differs: Mask) -> Index:
    """The starts of groups of rows. `differs` says, for each row but the first, whether it differs from the row before
    it.
    """
    first = np.ones(len(differs) + 1, dtype=np.bool_)
    first[1:] = differs
    return first.nonzero()[0]


def rearranged(order: Index, at: Index, weights: Numbers) -> tuple[Index, Numbers]:
    """The positions that are left, and their weights, in this order of all positions."""
    numbers = np.full(len(order), -1)
    numbers[at] = np.arange(len(at))
    numbers = numbers.take(order)
    numbers = numbers[numbers >= 0]
    return at.take(numbers), weights.take(numbers, axis=0)


def _summed(parts: Entries, order: Index, equal: Mask, same_rows: Same) -> tuple[Index, Numbers]:
    """Sum neighbours that are the same. `equal` says which neighbours in this order have the same hashes."""
    later = equal.nonzero()[0] + 1
    one, other = order.take(later), order.take(later - 1)
    same = same_rows(one, other)
    for number in parts.rounds:
        same &= number.take(one) == number.take(other)
    if np.count_nonzero(same) < len(same):
        order, equal = _apart(parts, order, equal, same_rows)
    starts = group_starts(~equal)
    weights = parts.weights.take(order, axis=0).astype(np.int64, copy=False)
    return order.take(starts), sum_groups(weights, starts)


def _apart(parts: Entries, order: Index, equal: Mask, same_rows: Same) -> tuple[Index, Mask]:
    """Bring equal entries together where different entries have one hash: entry by entry, because that hardly ever
    happens.
    """

    def is_same(one: int, other: int) -> bool:
        rows = same_rows(np.array([one]), np.array([other]))
        return bool(rows[0]) and all(n[one] == n[other] for n in parts.rounds)

    order = order.copy()
    joined = np.zeros(len(order), dtype=np.bool_)
    starts = group_starts(~equal)
    ends = np.append(starts[1:], len(order))
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        groups: list[list[int]] = []
        for entry in order[start:end].tolist():
            for group in groups:
                if is_same(entry, group[0]):
                    group.append(entry)
                    break
            else:
                groups.append([entry])
        order[start:end] = [entry for group in groups for entry in group]
        at = start
        for group in groups:
            joined[at + 1 : at + len(group)] = True
            at += len(group)
    return order, joined[1:]


def _take(rounds: ManyRounds, rows: Index) -> ManyRounds:
    return tuple(number.take(rows) for number in rounds)

"""Consolidation: one entry for each different row and time, with the sum of its weights, and no entry where that is
0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ...arrays.hashing import Hashes, combine_hashes
from ...core.interrupts import beside
from ...core.wide_rows import PassingRows
from ..kept.packed_key_domain import PackedKeyDomain
from .change import Change, ManyRounds, Numbers, all_one
from .rows import Rows
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

_FREED: Final = PassingRows(4 << 20)
"""The memory of merged runs. All that merges free goes back to the system, or it would stay beside the state."""


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
        key_hashes = self.key_hashes.take(rows)
        hashes = key_hashes if self.hashes is self.key_hashes else self.hashes.take(rows)
        weights = self.weights.take(rows, axis=0)
        return Entries(key_hashes, hashes, self.rows.take(rows), weights, _take(self.rounds, rows))

    @classmethod
    def concat(cls, parts: Sequence[Entries]) -> Entries:
        key_hashes = np.concatenate([part.key_hashes for part in parts])
        shared = all(part.hashes is part.key_hashes for part in parts)
        return cls(
            key_hashes,
            key_hashes if shared else np.concatenate([part.hashes for part in parts]),
            Rows.concat([part.rows for part in parts]),
            np.concatenate([part.weights for part in parts]),
            tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True)),
        )

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
    def nbytes(self) -> int:
        hashes = self.key_hashes.nbytes + (0 if self.hashes is self.key_hashes else self.hashes.nbytes)
        return int(hashes + self.weights.nbytes + sum(n.nbytes for n in self.rounds)) + self.rows.nbytes


def entries(rows: Rows, key_hashes: Hashes, row_hashes: Hashes, weights: Numbers, rounds: ManyRounds) -> Entries:
    """Consolidated entries of rows in any order. `row_hashes` may be the very `key_hashes` if the key is the row."""
    hashes = row_hashes
    for number in rounds:
        hashes = combine_hashes(hashes, number.view(np.uint64))
    return consolidated(Entries(key_hashes, hashes, rows, weights, rounds))


def consolidated(parts: Entries, *, keep_zeros: bool = False) -> Entries:
    """The same entries, in order, one for each row and time. Entries that sum to 0 are left out unless `keep_zeros`."""
    if len(parts) <= 1 or _ascending(parts.key_hashes):
        return parts if keep_zeros else without_zeros(parts)
    return _consolidated(parts, "quicksort", keep_zeros=keep_zeros)


def _ascending(hashes: Hashes) -> bool:
    """True where the hashes are different and in order; then so are the entries whose keys have them."""
    return int(np.count_nonzero(hashes[1:] > hashes[:-1])) == len(hashes) - 1


def to_merge(older: int, newer: int) -> bool:
    """True where a run of `newer` entries is merged with the next older run, of `older` entries."""
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


def merged(runs: list[Entries]) -> Entries:
    """The runs, older ones first and each in order, as one. The list is emptied: while rows are put in order, they take
    their memory twice, and would take it three times with the runs that they are of.
    """
    together = Entries.concat(runs)
    runs.clear()
    run = _consolidated(together, "stable", keep_zeros=False)
    size = together.nbytes
    del together
    _FREED.add_bytes(size)
    return run


def without_zeros(parts: Entries) -> Entries:
    """Consolidated entries without those that sum to 0."""
    if np.count_nonzero(parts.weights) == parts.weights.size:
        return parts
    return parts.take(not_zero(parts.weights).nonzero()[0])


def not_zero(weights: Numbers) -> Mask:
    """True for each entry with a number that is not 0."""
    return np.asarray(weights.any(axis=1)) if weights.ndim > 1 else weights != 0


def _consolidated(parts: Entries, kind: Literal["quicksort", "stable"], *, keep_zeros: bool) -> Entries:
    return beside(lambda: _put_together(parts, _order(parts, kind), keep_zeros=keep_zeros), len(parts))


def _put_together(parts: Entries, order: Index, *, keep_zeros: bool) -> Entries:
    parts = parts.take(order)
    equal: Mask = parts.hashes[1:] == parts.hashes[:-1]
    if parts.hashes is not parts.key_hashes:
        equal &= np.asarray(parts.key_hashes[1:] == parts.key_hashes[:-1])
    if np.count_nonzero(equal):
        parts = _summed(parts, equal)
    return parts if keep_zeros else without_zeros(parts)


def consolidate(change: Change) -> Change:
    """A change with one entry for each row and time, in no order."""
    if change.consolidated:
        return change
    if not change.rounds and len(change) >= _MANY:
        found_as_words = consolidated_as_words(change)
        if found_as_words is not None:
            return found_as_words
    hashes = change.rows.hashes()
    if not change.rounds and beside(lambda: _all_different(hashes), len(hashes)):
        # The most common case: all rows are different, and none has to be moved.
        if np.count_nonzero(change.weights) < len(change):
            change = change.take(change.weights.nonzero()[0])
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
        positions, weights = positions.take(order), weights.take(order)
    differs = positions[1:] != positions[:-1]
    if np.count_nonzero(differs) < len(differs):
        starts = group_starts(differs)
        positions, weights = positions.take(starts), sum_groups(weights, starts)
    if np.count_nonzero(weights) < len(weights):
        there = weights.nonzero()[0]
        positions, weights = positions.take(there), weights.take(there)
    return Change(domain.rows(positions), weights, consolidated=True)


def _all_different(hashes: Hashes) -> bool:
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


def _order(parts: Entries, kind: Literal["quicksort", "stable"]) -> Index:
    """The order by the key's hash, then by the entry's. Few entries have the same key, so these are sorted by
    themselves. A stable sort is fast for sorted runs, and slow for all else.
    """
    order: Index = parts.key_hashes.argsort(kind=kind)
    if parts.hashes is parts.key_hashes:
        return order
    keys = parts.key_hashes[order]
    tied = keys[1:] == keys[:-1]
    if np.count_nonzero(tied):
        among = np.zeros(len(keys), dtype=np.bool_)
        among[1:] = tied
        among[:-1] |= tied
        positions = among.nonzero()[0]
        some = order.take(positions)
        order[positions] = some.take(_order_in_groups(keys.take(positions), parts.hashes.take(some)))
    return order


def _order_in_groups(keys: Hashes, hashes: Hashes) -> Index:
    """The order by hash within groups of equal keys, which are in order. It uses as many bits of the hash as there is
    room for beside the group's number, which is much faster than a sort by two numbers.
    """
    groups = np.zeros(len(keys), dtype=np.uint64)
    np.cumsum(keys[1:] != keys[:-1], out=groups[1:])
    bits = max(int(groups[-1]).bit_length(), 1)
    packed = (groups << np.uint64(64 - bits)) | (hashes >> np.uint64(bits))
    order: Index = packed.argsort()
    ordered = packed.take(order)
    alike = (ordered[1:] == ordered[:-1]).nonzero()[0]
    if len(alike):
        sorted_hashes = hashes.take(order)
        if np.count_nonzero(sorted_hashes.take(alike) != sorted_hashes.take(alike + 1)):
            return np.lexsort((hashes, keys))
    return order


def _summed(parts: Entries, equal: Mask) -> Entries:
    """Sum neighbours that are the same. `equal` says which neighbours have the same hashes."""
    later = equal.nonzero()[0] + 1
    same = parts.rows.same(later, parts.rows, later - 1)
    for number in parts.rounds:
        same &= number[later] == number[later - 1]
    if np.count_nonzero(same) < len(same):
        parts, equal = _apart(parts, equal)
    starts = group_starts(~equal)
    sums = sum_groups(parts.weights.astype(np.int64, copy=False), starts)
    firsts = parts.take(starts)
    return Entries(firsts.key_hashes, firsts.hashes, firsts.rows, sums, firsts.rounds)


def _apart(parts: Entries, equal: Mask) -> tuple[Entries, Mask]:
    """Bring equal entries together where different entries have one hash: entry by entry, because that hardly ever
    happens.
    """
    order = np.arange(len(parts))
    joined = np.zeros(len(parts), dtype=np.bool_)
    starts = group_starts(~equal)
    ends = np.append(starts[1:], len(parts))
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        groups: list[list[int]] = []
        for entry in range(start, end):
            for group in groups:
                if _same_entry(parts, entry, group[0]):
                    group.append(entry)
                    break
            else:
                groups.append([entry])
        order[start:end] = [entry for group in groups for entry in group]
        at = start
        for group in groups:
            joined[at + 1 : at + len(group)] = True
            at += len(group)
    return parts.take(order), joined[1:]


def _same_entry(parts: Entries, left: int, right: int) -> bool:
    one, other = np.array([left]), np.array([right])
    return bool(parts.rows.same(one, parts.rows, other)[0]) and all(n[left] == n[right] for n in parts.rounds)


def _take(rounds: ManyRounds, rows: Index) -> ManyRounds:
    return tuple(number.take(rows) for number in rounds)

"""An arrangement whose rows are also in an order under each key, so that the first ones are found without the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from ...arrays.hashing import Hashes
from ...arrays.ordering import Order
from ...core.interrupts import beside
from ..values.change import Numbers, all_one
from ..values.consolidate import Arrange, Entries, sum_groups
from ..values.hash_order import order_under_keys
from ..values.order_codes import canonical_orders, orders_of
from ..values.rows import Rows
from ..values.value_columns import Index, Mask
from .arrangement import Arrangement, Run
from .chosen_entries import ChosenEntries
from .packed_words import PackedRun
from .present import Present, in_order, leading
from .section import Stretch

_MORE: Final = 8
"""The factor by which more of a key's rows are looked at where the first ones were not enough."""
_COUNTED: Final = 1 << 52
"""The most copies that can be counted: weights are added up as floats."""

Enough: TypeAlias = Callable[[Present, int], Mask]
"""A function that takes the first rows of so many keys, and flags the keys whose rows are enough."""


class OrderedArrangement(Arrangement):
    """An arrangement of rows in `orders` under their key, ties broken by all columns. It counts no rounds."""

    def __init__(
        self, types: Sequence[pa.DataType], key: Sequence[int], orders: Sequence[Order], *, packs: bool = False
    ) -> None:
        super().__init__(types, key, depth=0, orders=orders, packs=packs)
        # Two keys of one hash lie one behind the other.
        by_key = (order for order in canonical_orders(len(self._types)) if order.column in self._key)
        self.orders = tuple(orders_of(len(self._types), [*by_key, *orders]))
        self._sums: WeakKeyDictionary[Entries, Numbers | None] = WeakKeyDictionary()
        """The sums of a run's weights up to each row; None where all weights are 1."""

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(int(sums.nbytes) for sums in self._sums.values() if sums is not None)

    def counts(self, hashes: Hashes) -> Numbers:
        """The number of entries for keys of each hash."""
        counts = np.zeros(len(hashes), dtype=np.int64)
        for run in self._hashed():
            counts += run.key_hashes.searchsorted(hashes, side="right") - run.key_hashes.searchsorted(hashes)
        return counts

    def stretches(self, key: Rows, hashes: Hashes) -> list[Stretch] | None:
        """The rows of one key in each run; None where another key has the same hash."""
        stretches = []
        for run in self._hashed():
            start, stop = (int(run.key_hashes.searchsorted(hashes, side=side)[0]) for side in ("left", "right"))
            if start == stop:
                continue
            ends = run.rows.select(self._key).take(np.array([start, stop - 1]))
            if not key.same(np.zeros(2, dtype=np.int64), ends, np.arange(2)).all():
                return None
            stretches.append(Stretch(run.rows, run.weights, start, stop, self._sums_of(run)))
        return stretches

    def _hashed(self) -> list[Entries]:
        """All runs, none of which is packed."""
        return [run for run in self.runs if isinstance(run, Entries)]

    def _sums_of(self, run: Entries) -> Numbers | None:
        if run not in self._sums:
            self._sums[run] = None if all_one(run.weights) else np.cumsum(run.weights)
        return self._sums[run]

    def first_of(self, keys: Rows, width: int, enough: Enough) -> Present:
        """The first rows of each key: as many as are `enough`, or all. The search begins with `width` of them."""
        hashes = keys.hashes()
        parts: list[Present] = []
        waiting = np.arange(len(keys))
        width = min(width, self.rows)
        while len(waiting):
            some = self._some(keys.take(waiting), hashes[waiting], width)
            ends = ~some.cut | enough(some.first, len(waiting))
            which = ends[some.first.asked]
            parts.append(_taken(some.first, which, waiting))
            waiting = waiting[~ends]
            width = min(width * _MORE, self.rows)
        return _joined(parts, self._types)

    def first_sizes(self, keys: Rows, width: int) -> Numbers:
        """About the bytes of the rows at which `first_of` looks at first."""
        hashes = keys.hashes()
        sizes = np.zeros(len(keys), dtype=np.int64)
        for run in self.runs:
            among, _, counts = self._ranges(run, keys, hashes)
            sizes[among] += np.minimum(counts, width) * (run.nbytes // max(len(run), 1))
        return sizes

    @property
    def _arrange(self) -> Arrange:
        return lambda rows, key_hashes: order_under_keys(rows, key_hashes, self.orders)

    def _some(self, keys: Rows, hashes: Hashes, width: int) -> _Some:
        """Up to `width` entries of each key in each run, put together. They are sure to be the first ones up to the
        entry at which the first run with more entries was cut.
        """
        matches: list[tuple[Run, Index, Index]] = []
        cut: list[Mask] = []
        for run in self.runs:
            among, start, all_ = self._ranges(run, keys, hashes)
            counts = np.minimum(all_, width)
            if not counts.any():
                continue
            of = np.repeat(among, counts)
            first = np.cumsum(counts) - counts
            at = np.arange(int(counts.sum())) - np.repeat(first - start, counts)
            last = np.zeros(len(at), dtype=np.bool_)
            last[(first + counts - 1)[all_ > width]] = True
            matches.append((run, of, at))
            cut.append(last)
            self.looked_at += len(at)
        if not matches:
            none = np.empty(0, dtype=np.int64)
            return _Some(Present(none, Rows.empty(self._types), none), np.zeros(len(keys), dtype=np.bool_))
        return self._summed(keys, ChosenEntries.of(matches, self._nothing), np.concatenate(cut))

    @staticmethod
    def _ranges(run: Run, keys: Rows, hashes: Hashes) -> tuple[Index, Index, Numbers]:
        """The keys that may have entries in a run; for each one the position of its first entry, and the number of its
        entries.
        """
        if isinstance(run, PackedRun):
            asked, words = run.layout.key_words(keys)
            return np.arange(len(keys)) if asked is None else asked, *run.ranges(words)
        start = beside(lambda: np.searchsorted(run.key_hashes, hashes, side="left"), len(keys))
        end = beside(lambda: np.searchsorted(run.key_hashes, hashes, side="right"), len(keys))
        return np.arange(len(keys)), start, end - start

    def _summed(self, keys: Rows, entries: ChosenEntries, cut: Mask) -> _Some:
        """The first rows of keys among some entries. No other rows are copied: rows may be long."""
        at, asked, starts, weights, order = in_order(entries, self.orders)
        sums = sum_groups(weights, starts)
        cut = np.logical_or.reduceat(cut[order], starts)
        asked, at, rows = asked[starts], at[starts], entries.rows
        # Behind the first position at which a run was cut, entries may be missing.
        begins = leading(asked)
        cuts: Numbers = np.cumsum(cut) - cut
        known = cuts - np.repeat(cuts[begins], np.diff(begins, append=len(asked))) == 0
        cut_keys = np.zeros(len(keys), dtype=np.bool_)
        cut_keys[asked[cut]] = True
        mine = keys.same(asked, rows.select(self._key), at)
        which = np.flatnonzero(known & mine & (sums > 0))
        return _Some(Present(asked[which], rows.take(at[which]), sums[which]), cut_keys)


def weighing(count: int) -> Enough:
    """A test for rows of a key that make up a weight of `count`. Where the weights cannot be counted, only all rows of
    the key are enough.
    """
    if count >= _COUNTED:
        return lambda _, keys: np.zeros(keys, dtype=np.bool_)
    return lambda first, keys: np.bincount(first.asked, weights=first.weights, minlength=keys) >= count


@dataclass(frozen=True, slots=True, eq=False)
class _Some:
    """First rows of keys, and for each key whether it may have more."""

    first: Present
    cut: Mask


def _taken(first: Present, which: Mask, waiting: Index) -> Present:
    if which.all():
        return Present(waiting[first.asked], first.rows, first.weights)
    at = np.flatnonzero(which)
    return Present(waiting[first.asked[at]], first.rows.take(at), first.weights[at])


def _joined(parts: Sequence[Present], types: Sequence[pa.DataType]) -> Present:
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Present(none, Rows.empty(types), none)
    asked = np.concatenate([part.asked for part in parts])
    rows = Rows.concat([part.rows for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    if len(parts) > 1:
        order = np.argsort(asked, kind="stable")
        asked, rows, weights = asked[order], rows.take(order), weights[order]
    return Present(asked, rows, weights)

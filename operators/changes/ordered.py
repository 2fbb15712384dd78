"""An arrangement whose rows are also in an order under each key, so that the first ones are found without the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ..hashing import Hashes
from ..ordering import Order
from .arrangement import Arrangement
from .change import Numbers
from .codes import canonical_orders, order_of
from .columns import Index, Mask
from .consolidate import Entries, group_starts, sum_groups
from .present import Present, leading, same_as_before
from .rows import Rows

_MORE: Final = 8
"""By how much more of a key's rows are looked at where the first ones were not enough."""
_COUNTED: Final = 1 << 52
"""To see whether there are so many copies all of a key's rows are looked at: weights are added up as floats."""


class OrderedArrangement(Arrangement):
    """Rows in `orders` under their key, ties broken by all columns. It counts no rounds."""

    def __init__(self, types: Sequence[pa.DataType], key: Sequence[int], orders: Sequence[Order]) -> None:
        super().__init__(types, key, depth=0)
        self._orders = (*orders, *canonical_orders(len(self._types)))

    def first(self, keys: Rows, hashes: Hashes, count: int) -> Present:
        """Of each key as many rows as make up a weight of `count`, or all there are."""
        found: list[Present] = []
        waiting = np.arange(len(keys))
        width = 2 * count + 2 if count < _COUNTED else self.rows
        while len(waiting):
            some = self._some(keys.take(waiting), hashes[waiting], width)
            enough = self._enough(some, len(waiting), count)
            which = enough[some.first.asked]
            found.append(_taken(some.first, which, waiting))
            waiting = waiting[~enough]
            width = min(width * _MORE, self.rows)
        return _joined(found, self._types)

    def _arranged(self, run: Entries) -> Entries:
        return run.take(order_of(run.rows, self._orders, after=[run.key_hashes]))

    def _some(self, keys: Rows, hashes: Hashes, width: int) -> _Some:
        """Up to `width` entries of each key in each run, put together; they are known to be the first of all up to
        where the first run ended that has more.
        """
        parts: list[Entries] = []
        asked: list[Index] = []
        cut: list[Mask] = []
        for run in self.runs:
            start = np.searchsorted(run.key_hashes, hashes, side="left")
            end = np.searchsorted(run.key_hashes, hashes, side="right")
            counts = np.minimum(end - start, width)
            if not counts.any():
                continue
            of = np.repeat(np.arange(len(keys)), counts)
            first = np.cumsum(counts) - counts
            at = np.arange(int(counts.sum())) - np.repeat(first - start, counts)
            last = np.zeros(len(at), dtype=np.bool_)
            last[(first + counts - 1)[end - start > width]] = True
            parts.append(run.take(at))
            asked.append(of)
            cut.append(last)
            self.touched += len(at)
        if not parts:
            none = np.empty(0, dtype=np.int64)
            return _Some(Present(none, Rows.empty(self._types), none), np.zeros(len(keys), dtype=np.bool_))
        rows = Rows.concat([part.rows for part in parts])
        return self._summed(
            keys, rows, np.concatenate([part.weights for part in parts]), np.concatenate(asked), np.concatenate(cut)
        )

    def _summed(self, keys: Rows, rows: Rows, weights: Numbers, asked: Index, cut: Mask) -> _Some:
        order = order_of(rows, self._orders, after=[asked])
        rows, weights, asked, cut = rows.take(order), weights[order], asked[order], cut[order]
        starts = group_starts(~same_as_before(asked, rows))
        sums = sum_groups(weights, starts)
        cut = np.logical_or.reduceat(cut, starts)
        asked, rows = asked[starts], rows.take(starts)
        # What lies behind the first place where a run was cut may not be all there is.
        begins = leading(asked)
        cuts: Numbers = np.cumsum(cut) - cut
        known = cuts - np.repeat(cuts[begins], np.diff(begins, append=len(asked))) == 0
        cut_keys = np.zeros(len(keys), dtype=np.bool_)
        cut_keys[asked[cut]] = True
        mine = keys.same(asked, rows.select(self._key), np.arange(len(rows)))
        which = np.flatnonzero(known & mine & (sums > 0))
        return _Some(Present(asked[which], rows.take(which), sums[which]), cut_keys)

    @staticmethod
    def _enough(some: _Some, keys: int, count: int) -> Mask:
        weights = np.bincount(some.first.asked, weights=some.first.weights, minlength=keys)
        enough: Mask = ~some.cut | (weights >= count)
        return enough


@dataclass(frozen=True, slots=True, eq=False)
class _Some:
    """First rows, and for each key whether there may be more."""

    first: Present
    cut: Mask


def _taken(first: Present, which: Mask, waiting: Index) -> Present:
    at = np.flatnonzero(which)
    return Present(waiting[first.asked[at]], first.rows.take(at), first.weights[at])


def _joined(found: Sequence[Present], types: Sequence[pa.DataType]) -> Present:
    if not found:
        none = np.empty(0, dtype=np.int64)
        return Present(none, Rows.empty(types), none)
    asked = np.concatenate([part.asked for part in found])
    rows = Rows.concat([part.rows for part in found])
    weights = np.concatenate([part.weights for part in found])
    if len(found) > 1:
        order = np.argsort(asked, kind="stable")
        asked, rows, weights = asked[order], rows.take(order), weights[order]
    return Present(asked, rows, weights)

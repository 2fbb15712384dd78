"""The order of entries: by the hash of their key, then by another hash, or by the rows themselves.

Keys of many entries are put in order one after the other, so that not all need the memory of their numbers at one time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from ...arrays.hashing import Hashes
from ...arrays.ordering import Order
from .order_codes import order_of
from .rows import Rows
from .value_columns import Index

_ORDERED: Final = 1 << 18
"""About the entries of alike keys that are ordered at once."""


def order_by_hashes(key_hashes: Hashes, hashes: Hashes, kind: Literal["quicksort", "stable"]) -> Index:
    """The order by the key's hash, then by the entry's. Few entries have the same key, so these are sorted by
    themselves. A stable sort is fast for sorted runs, and slow for all else.
    """
    order: Index = key_hashes.argsort(kind=kind)
    if hashes is key_hashes:
        return order
    keys = key_hashes[order]
    tied = keys[1:] == keys[:-1]
    if np.count_nonzero(tied):
        for part in _stretches(keys):
            _order_ties(order[part], keys[part], hashes)
    return order


def order_under_keys(rows: Rows, key_hashes: Hashes, orders: Sequence[Order]) -> Index:
    """The positions of the rows in the order of their keys' hashes, then in these orders."""
    if len(rows) <= _ORDERED:
        return order_of(rows, orders, after=[key_hashes])
    order: Index = key_hashes.argsort(kind="stable")
    for part in _stretches(key_hashes.take(order)):
        some = order[part]
        order[part] = some.take(order_of(rows, orders, after=[key_hashes.take(some)], at=some))
    return order


def _stretches(keys: Hashes) -> list[slice]:
    """Stretches of entries in the order of their keys that are ordered further one by one, so that not all need the
    memory of their numbers at one time. Entries of one key are in one stretch.
    """
    count = len(keys)
    starts: Index = (keys[1:] != keys[:-1]).nonzero()[0] + 1 if count > _ORDERED else np.empty(0, dtype=np.int64)
    if not len(starts):
        return [slice(None)]
    cuts = starts.searchsorted(range(_ORDERED, count, _ORDERED)).clip(max=len(starts) - 1)
    return [slice(*ends) for ends in pairwise([0, *starts[np.unique(cuts)].tolist(), count])]


def _order_ties(order: Index, keys: Hashes, hashes: Hashes) -> None:
    """Put positions that are in the order of their keys in that of their hashes where keys are alike."""
    tied = keys[1:] == keys[:-1]
    among = np.zeros(len(keys), dtype=np.bool_)
    among[1:] = tied
    among[:-1] |= tied
    positions = among.nonzero()[0]
    if len(positions):
        some = order.take(positions)
        order[positions] = some.take(_order_in_groups(keys.take(positions), hashes.take(some)))


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

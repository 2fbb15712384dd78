"""Canonical order: the order of rows that have none otherwise.

All columns from left to right, ascending; nulls after everything, NaN after numbers, -0.0 as 0.0; the weight last.
Lists are compared element by element and come after their own beginnings; structs are compared field by field; inside
both, nulls and NaN are ordered as outside.
"""

from __future__ import annotations

import numpy as np

from ..kept.packed_key_domain import PackedKeyDomain
from .change import Change, take_weights
from .order_codes import canonical_orders, order_of
from .rows import taken


def canonical(change: Change) -> Change:
    """The same change in canonical order; it has no rounds."""
    return into_canonical([change])


def into_canonical(handed: list[Change]) -> Change:
    """`canonical` of the only change in the list, which is emptied: its rows are not in memory twice."""
    change = handed.pop()
    if len(change) <= 1:
        return change
    alike = bool((change.weights == change.weights[0]).all())
    if alike:
        packed = _packed(change)
        if packed is not None:
            return packed
    orders = canonical_orders(len(change.rows.columns))
    order = order_of(change.rows, orders, then=() if alike else [change.weights])
    rows, weights, consolidated = [change.rows], take_weights(change.weights, order), change.consolidated
    del change  # whose rows may be long
    return Change(taken(rows, order), weights, consolidated=consolidated)


def _packed(change: Change) -> Change | None:
    """The same change in canonical order, for a change whose weights are all alike; None if its rows are no single
    words.
    """
    domain = PackedKeyDomain.around(change.rows)
    positions = None if domain is None else domain.positions(change.rows)
    if domain is None or positions is None:
        return None
    if np.count_nonzero(positions[1:] < positions[:-1]) == 0:
        return change
    positions.sort()
    return Change(domain.rows(positions), change.weights, consolidated=change.consolidated)

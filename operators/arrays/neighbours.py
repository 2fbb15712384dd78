"""Comparison of neighbouring rows as GROUP BY compares them: null equals null, NaN equals NaN, -0.0 equals 0.0.

The comparison is vectorised, and by value: dictionaries, run ends and other ways to store a type do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from .layout import Flags, Lists, Places, dtype_of, flags, is_list, stored, values

_DAY_NS = 86_400_000_000_000
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def starts(columns: Sequence[pa.Array], before: Sequence[pa.Array] | None) -> Places:
    """The rows at which a run of equal rows begins. `before` is the row above the first one (arrays of length 1);
    without it a run begins at row 0.
    """
    rows = len(columns[0])
    if not rows:
        return np.zeros(0, np.int64)
    begins = np.flatnonzero(_any([differ(column[1:], column[:-1]) for column in columns], rows - 1)) + 1
    if before is None or any(differ(column[:1], above)[0] for column, above in zip(columns, before, strict=True)):
        return np.concatenate(([0], begins))
    return begins


def differ(left: pa.Array, right: pa.Array) -> Flags:
    """True for each row in which two arrays of one type and length differ."""
    left, right = stored(left), stored(right)
    type_ = left.type
    if kinds.is_null(type_):
        return np.zeros(len(left), np.bool_)
    if kinds.is_struct(type_):
        unequal = _any([differ(a, b) for a, b in zip(left.flatten(), right.flatten(), strict=True)], len(left))
    elif is_list(type_):
        unequal = _differing_lists(left, right)
    elif kinds.is_interval(type_):
        unequal = _any([a != b for a, b in zip(_spans(left), _spans(right), strict=True)], len(left))
    elif dtype_of(type_) is not None:
        unequal = _differing_words(left, right)
    else:
        unequal = flags(pc.not_equal(left, right))
    if not left.null_count and not right.null_count:
        return unequal
    left_null, right_null = flags(left.is_null()), flags(right.is_null())
    different: Flags = np.where(left_null | right_null, left_null != right_null, unequal)
    return different


def _differing_words(left: pa.Array, right: pa.Array) -> Flags:
    a, b = values(left), values(right)
    unequal: Flags = a != b
    if a.dtype.kind == "f" and unequal.any():
        unequal &= ~(np.isnan(a) & np.isnan(b))
    return unequal


def _differing_lists(left: pa.Array, right: pa.Array) -> Flags:
    """True for each row whose lists differ in length or in an item. The flag means nothing where one of the lists is
    null.
    """
    a, b = Lists(left), Lists(right)
    unequal = a.lengths != b.lengths
    same = np.flatnonzero(~unequal & (a.lengths > 0))
    if same.size:
        counts = a.lengths[same]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        items = differ(
            *(lists.items.take(pa.array(np.repeat(lists.offsets[same], counts) + within)) for lists in (a, b))
        )
        unequal[same] |= np.logical_or.reduceat(items, ends - counts)
    different: Flags = unequal
    return different


def _spans(array: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]:
    """Intervals as days (a month has 30) and the rest of a day in nanoseconds: DuckDB compares intervals so."""
    parts = np.frombuffer(array.buffers()[1] or b"", dtype=_INTERVAL)[array.offset : array.offset + len(array)]
    days, nanoseconds = np.divmod(parts["nanoseconds"], _DAY_NS)
    return parts["months"].astype(np.int64) * 30 + parts["days"] + days, nanoseconds


def _any(of_columns: Sequence[Flags], rows: int) -> Flags:
    together: Flags = of_columns[0] if of_columns else np.zeros(rows, np.bool_)
    for column in of_columns[1:]:
        together = together | column
    return together

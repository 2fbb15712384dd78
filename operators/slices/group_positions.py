"""The place of each row's group in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..arrays.layout import Words, flags, values
from .group_domain import Axis, Bounds

_FEW: Final = 3
"""If the rows of a block are in so many more slices than one, they are numbered slice by slice where times ascend."""

_Piece: TypeAlias = tuple[int, int, int]
"""Rows from a first one to before another one, and what their places have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A key of groups: a column's values, or the numbers of its slices of `size` units, of which slice 0 begins at
    `origin`. Values that are no whole numbers have to be `numbered`.
    """

    column: int
    size: int | None = None
    origin: int = 0
    numbered: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The part that a key has in places: its codes, each `scale` times."""

    key: GroupKey
    column: pa.Array
    bounds: Bounds
    least: int
    scale: int


def positions(
    axes: Sequence[Axis],
    keys: Sequence[GroupKey],
    columns: Sequence[pa.Array],
    bounds: Sequence[Bounds],
    ascending: bool,
) -> Words:
    """The place of each row. The keys have these bounds. The times that are sliced may be ascending."""
    base, scale, rows = 0, 1, len(columns[0])
    parts: list[_Part] = []
    for axis, key, column, bound in reversed(list(zip(axes, keys, columns, bounds, strict=True))):
        if bound[0] == bound[1] and not column.null_count:
            base += (bound[0] - (axis.least - 1)) * scale
        else:
            parts.append(_Part(key, column, bound, axis.least, scale))
        scale *= axis.size
    pieces = [(0, rows, base)]
    if ascending and parts and (of_slices := _pieces(parts[-1], rows, base)) is not None:
        pieces = of_slices
        parts.pop()
    if not parts:
        return np.repeat([common for *_, common in pieces], [end - begin for begin, end, _ in pieces])
    at = _codes(parts[0], pieces)
    for part in parts[1:]:
        at += _codes(part, ())
    return at


def _pieces(part: _Part, rows: int, base: int) -> list[_Piece] | None:
    """The rows of each slice, of times that ascend; None for many slices, and for other keys."""
    key, (first, last) = part.key, part.bounds
    if key.size is None or last - first > _FEW:
        return None
    numbers = values(part.column)
    begins = np.array([key.origin + key.size * number for number in range(first + 1, last + 1)], numbers.dtype)
    ends = map(int, np.searchsorted(numbers, begins))
    code = first - (part.least - 1)
    return [(begin, end, base + at * part.scale) for at, (begin, end) in enumerate(pairwise((0, *ends, rows)), code)]


def _codes(part: _Part, pieces: Sequence[_Piece]) -> Words:
    """The keys as distances from `least` - 1, times `scale`, in a new array, with what pieces have in common; nulls
    are 0. Their bounds fit.
    """
    numbers, size = values(part.column), part.key.size or 1
    origin = part.key.origin + size * (part.least - 1)
    codes: Words = np.empty(len(numbers), np.int64)
    if part.scale == 1 and part.key.size is None and not part.column.null_count and pieces:
        for begin, end, common in pieces:
            np.subtract(numbers[begin:end], origin - common, out=codes[begin:end], dtype=np.int64, casting="unsafe")
        return codes
    np.subtract(numbers, origin, out=codes, dtype=np.int64, casting="unsafe")
    if part.key.size is not None:
        codes //= size
    elif part.column.null_count:
        codes[flags(part.column.is_null())] = 0
    if part.scale != 1:
        codes *= part.scale
    for begin, end, common in pieces:
        codes[begin:end] += common
    return codes

"""Rows of slices sorted by group and slice, and the windows that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.layout import Flags, Places, Words, values
from .group_codes import group_codes
from .state_joins import Frames, SortedRows

_FARTHEST: Final = 1 << 61
_MOST: Final = 1 << 63
_DENSE: Final = 4
"""Slices are numbered by their own numbers if they are in a range of so many numbers for each row."""


class SliceRuns:
    """The rows of slices of which windows are made. Window n is `length` slices long, and begins with slice n * `step`.
    There is a row, and `can_number` holds for the slices.
    """

    def __init__(self, slices: pa.Array, keys: Sequence[pa.Array], length: int, step: int) -> None:
        self._length, self._step = length, step
        ranks, self._ranks = _ranked(values(slices))
        codes = _codes(keys, ranks, self._ranks.most)
        order, self._codes = _ordered(codes, int(codes.max()) + 1)
        ranks = ranks[order]
        self._slices = self._ranks.slices(ranks)
        self._places: Places | None = None
        self._bases = np.subtract(self._codes, ranks, out=ranks)
        same = np.zeros(len(order), np.bool_)
        np.equal(self._bases[1:], self._bases[:-1], out=same[1:])
        self.rows = SortedRows(order=order, slices=self._slices, same=same, length=length)
        self._first = _first_windows(self._slices, same, length, step)
        self._windows = _divided(self._slices, step) - self._first
        self._windows += 1
        np.maximum(self._windows, 0, out=self._windows)

    def frames(self, most: int) -> Iterator[tuple[Words, Frames]]:
        """The windows that have a row, sorted by group and number: about `most` at a time, their numbers and frames."""
        ends = np.cumsum(self._windows)
        begin = before = 0
        while begin < len(ends):
            end = max(int(np.searchsorted(ends, before + most, side="right")), begin + 1)
            if ends[end - 1] > before:
                yield self._some(begin, end, ends[begin:end] - before)
            begin, before = end, int(ends[end - 1])

    def _some(self, begin: int, end: int, ends: Words) -> tuple[Words, Frames]:
        """The windows whose first row is one of these. `ends` are the counts of windows up to each of the rows."""
        counts = self._windows[begin:end]
        first = np.repeat(np.arange(begin, end), counts)
        numbers = np.repeat(self._first[begin:end] + counts - ends, counts)
        numbers += np.arange(len(numbers))
        starts = numbers if self._step == 1 else numbers * self._step
        codes = self._ranks.below(starts + self._length)
        codes += np.repeat(self._bases[begin:end], counts)
        return numbers, Frames(first=first, end=self._before(codes), start=starts)

    def _before(self, codes: Words) -> Places:
        """For each code, the number of rows whose codes are below it. It is at most that of the last group's end."""
        most = int(self._bases[-1]) + self._ranks.most
        if most >= _DENSE * len(self._codes):
            return np.searchsorted(self._codes, codes)
        if self._places is None:
            self._places = np.zeros(most + 1, np.int64)
            np.cumsum(np.bincount(self._codes, minlength=most), out=self._places[1:])
        return self._places[codes]


def can_number(slices: pa.Array, length: int, step: int) -> bool:
    """Tests whether no number of a slice, or of a window's bounds, is beyond 64 bits."""
    numbers = values(slices)
    first, last = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    return are_near(first, last, length, step)


def are_near(first: int, last: int, length: int, step: int) -> bool:
    """Tests whether no bound of a window of slices from `first` to `last` is beyond 64 bits."""
    return max(abs(first), abs(last)) + length + step < _FARTHEST


class _Ranks:
    """Numbers of slices in their order, below `most`: their distance from the least one, or their rank."""

    def __init__(self, least: int, most: int, known: Words | None) -> None:
        self.most = most
        self._least = least
        self._known = known

    def slices(self, ranks: Words) -> Words:
        """The slices of these ranks."""
        return ranks + self._least if self._known is None else self._known[ranks]

    def below(self, ends: Words) -> Words:
        """The numbers that slices before these ends are below."""
        if self._known is None:
            return np.minimum(ends - self._least, self.most)
        return np.searchsorted(self._known, ends)


def _ranked(slices: Words) -> tuple[Words, _Ranks]:
    least, most = int(slices.min()), int(slices.max())
    if most - least < _DENSE * len(slices):
        return slices - least, _Ranks(least, most - least + 1, None)
    known, ranks = np.unique(slices, return_inverse=True)
    return ranks, _Ranks(0, len(known), known)


def _codes(keys: Sequence[pa.Array], ranks: Words, most_ranks: int) -> Words:
    """A number for each group and rank, in the order of groups and then of ranks."""
    groups, most_groups = group_codes(keys, len(ranks))
    if most_groups * most_ranks >= _MOST:
        _, groups = np.unique(groups, return_inverse=True)
    groups *= most_ranks
    groups += ranks
    return groups


def _ordered(codes: Words, most: int) -> tuple[Places, Words]:
    """The positions of the codes, which are below `most`, in ascending order, and the codes in this order. Equal codes
    stay in their order.
    """
    rows = len(codes)
    if bool(np.all(codes[1:] >= codes[:-1])):
        return np.arange(rows), codes
    if most < _DENSE * rows:
        at = np.full(most, -1, np.int64)
        at[codes] = np.arange(rows)
        known = np.flatnonzero(at >= 0)
        if len(known) == rows:  # no two codes are equal
            return at[known], known
    if most * rows >= _MOST:
        order = np.argsort(codes, kind="stable")
        return order, codes[order]
    placed = codes * rows + np.arange(rows)
    placed.sort()
    order = placed % rows
    return order, codes[order]


def _first_windows(slices: Words, same: Flags, length: int, step: int) -> Words:
    """For each row, the first window that has the row and no row before it in its group."""
    first = _divided(slices - (length - step), step)
    after = _divided(slices[:-1], step) + 1
    np.maximum(first[1:], after, out=first[1:], where=same[1:])
    return first


def _divided(numbers: Words, divisor: int) -> Words:
    """The numbers divided, and rounded down."""
    return numbers if divisor == 1 else numbers // divisor

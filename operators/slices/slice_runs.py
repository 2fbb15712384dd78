"""Rows of slices sorted by group and slice, and the windows that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.layout import Places, Words, values
from .blocks_of_slices import Blocks
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
        numbers = values(slices)
        rows = len(numbers)
        groups, most_groups = group_codes(keys, rows)
        ranks, self._ranks = _ranked(numbers)
        codes = groups * self._ranks.most + ranks if most_groups * self._ranks.most < _MOST else None
        if codes is None:
            _, groups = np.unique(groups, return_inverse=True)
            codes = groups * self._ranks.most + ranks
        order = _order(codes, int(codes.max()) + 1)
        self._codes = codes[order]
        self._slices = numbers[order]
        self._places: Places | None = None
        self._bases = self._codes - ranks[order]
        same = np.zeros(rows, np.bool_)
        np.equal(self._bases[1:], self._bases[:-1], out=same[1:])
        block = self._slices // length
        begins = ~same
        begins[1:] |= block[1:] != block[:-1]
        self.rows = SortedRows(order=order, block=block, blocks=Blocks(np.flatnonzero(begins), rows))
        self._first = _first_windows(self._slices, same, length, step)
        self._windows = np.maximum(self._slices // step - self._first + 1, 0)

    def frames(self, most: int) -> Iterator[tuple[Words, Frames]]:
        """The windows that have a row, sorted by group and number: about `most` at a time, their numbers and frames."""
        ends = np.cumsum(self._windows)
        begin = before = 0
        while begin < len(ends):
            end = max(int(np.searchsorted(ends, before + most, side="right")), begin + 1)
            yield from self._some(begin, end)
            begin, before = end, int(ends[end - 1])

    def _some(self, begin: int, end: int) -> Iterator[tuple[Words, Frames]]:
        """The windows whose first row is one of these."""
        counts = self._windows[begin:end]
        total = int(counts.sum())
        if not total:
            return
        first = np.repeat(np.arange(begin, end), counts)
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = self._first[first] + within
        starts = numbers * self._step
        ends = self._before(self._bases[first] + self._ranks.below(starts + self._length))
        yield numbers, Frames(first=first, end=ends, block=starts // self._length)

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
    farthest = max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0
    return farthest + length + step < _FARTHEST


class _Ranks:
    """Numbers of slices in their order, below `most`: their distance from the least one, or their rank."""

    def __init__(self, least: int, most: int, slices: Words | None) -> None:
        self.most = most
        self._least = least
        self._slices = slices

    def below(self, ends: Words) -> Words:
        """The numbers that slices before these ends are below."""
        if self._slices is None:
            return np.minimum(ends - self._least, self.most)
        return np.searchsorted(self._slices, ends)


def _ranked(slices: Words) -> tuple[Words, _Ranks]:
    least, most = int(slices.min()), int(slices.max())
    if most - least < _DENSE * len(slices):
        return slices - least, _Ranks(least, most - least + 1, None)
    known, ranks = np.unique(slices, return_inverse=True)
    return ranks, _Ranks(0, len(known), known)


def _order(codes: Words, most: int) -> Places:
    """The positions of the codes, which are below `most`, in ascending order; equal codes stay in their order."""
    rows = len(codes)
    if bool(np.all(codes[1:] >= codes[:-1])):
        return np.arange(rows)
    if most < _DENSE * rows:
        at = np.full(most, -1, np.int64)
        at[codes] = np.arange(rows)
        order = at[at >= 0]
        if len(order) == rows:  # no two codes are equal
            return order
    if most * rows >= _MOST:
        return np.argsort(codes, kind="stable")
    placed = codes * rows + np.arange(rows)
    placed.sort()
    return placed % rows


def _first_windows(slices: Words, same: np.ndarray[tuple[int], np.dtype[np.bool_]], length: int, step: int) -> Words:
    """For each row, the first window that has the row and no row before it in its group."""
    first = (slices - (length - step)) // step
    after = np.empty_like(slices)
    after[1:] = slices[:-1] // step + 1
    return np.where(same, np.maximum(first, np.where(same, after, first)), first)

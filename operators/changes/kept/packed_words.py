"""Packed entries in one run: words in ascending order, each with its weight; how runs are made and merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...core.interrupts import MANY, beside, look
from ..values.change import Change, Numbers, Rounds, all_one, ones
from ..values.consolidate import group_starts, narrow, not_zero, sum_groups
from ..values.value_columns import Index
from .packed_key_domain import WORD_BITS
from .packed_layout import Layout

_WORTH: Final = 8
"""A run gets a directory once the keys of look-ups are this part of its entries ..."""
_AN_ENTRY: Final = 4
_FEW: Final = 1_024
"""... and there are at most so many possible keys for each entry."""


class PackedRun:
    """A packed run. It is immutable: words in ascending order, each once, none with a weight of 0."""

    __slots__ = ("__weakref__", "_asked", "_directory", "_latest", "_once", "layout", "weights", "words")

    def __init__(self, layout: Layout, words: Numbers, weights: Numbers) -> None:
        self.layout = layout
        self.words = words
        self.weights = narrow(weights)
        self._once = weights.ndim == 1 and all_one(weights)
        self._latest = tuple(int(np.maximum.reduce(numbers, initial=0)) for numbers in layout.rounds(words))
        self._asked = 0
        self._directory: Index | None = None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def nbytes(self) -> int:
        directory = 0 if self._directory is None else self._directory.nbytes
        return int(self.words.nbytes + self.weights.nbytes + directory)

    def pick(self, at: Index, columns: Sequence[int] | None = None) -> Change:
        """The entries at these positions, with these columns, or with all."""
        words = self.words.take(at)
        weights = ones(len(at)) if self._once else self.weights.take(at, axis=0).astype(np.int64, copy=False)
        return Change(self.layout.rows(words, columns), weights, self.layout.rounds(words))

    def words_at(self, at: Index | None, layout: Layout) -> Numbers:
        """The words at these positions, or all words, in a layout that has room for them."""
        words = self.words if at is None else self.words.take(at)
        return words if layout is self.layout else self.layout.laid_out_as(layout, words)

    def ranges(self, key_words: Numbers) -> tuple[Index, Numbers]:
        """For each key the position of its first entry, and the number of its entries."""
        directory = self._asked_for(len(key_words))
        if len(key_words) <= MANY:
            return self._ranges(key_words, directory)
        parts = []
        for start in range(0, len(key_words), MANY):
            look()
            parts.append(self._ranges(key_words[start : start + MANY], directory))
        first, counts = zip(*parts, strict=True)
        return np.concatenate(first), np.concatenate(counts)

    def _ranges(self, key_words: Numbers, directory: Index | None) -> tuple[Index, Numbers]:
        shift = self.layout.key_shift
        if directory is not None:
            keys = key_words >> shift
            first = directory.take(keys)
            return first, directory.take(keys + 1) - first
        first = self.words.searchsorted(key_words)
        return first, self.words.searchsorted(key_words | ((1 << shift) - 1), side="right") - first

    def range(self, key_word: int) -> tuple[int, int]:
        """`ranges` of a single key, as fast as possible."""
        shift = self.layout.key_shift
        directory = self._asked_for(1)
        if directory is not None:
            key = key_word >> shift
            start = directory.item(key)
            return start, directory.item(key + 1) - start
        start = self.words.searchsorted(key_word).item()
        return start, self.words.searchsorted(key_word | ((1 << shift) - 1), side="right").item() - start

    def after(self, time: Rounds) -> bool:
        """True where an entry may be at a time that is not before or at this one."""
        return any(latest > number for latest, number in zip(self._latest, time, strict=True))

    def _asked_for(self, keys: int) -> Index | None:
        """The directory: the start of each possible key. None if the run has no directory."""
        layout = self.layout
        if self._directory is None and self._asked >= 0:
            self._asked += keys
            if 1 << layout.key_bits > max(_AN_ENTRY * len(self), _FEW):
                self._asked = -1
            elif self._asked * _WORTH >= len(self):
                counts = np.bincount(self.words >> layout.key_shift, minlength=1 << layout.key_bits)
                dtype = np.int32 if len(self) < 1 << 31 else np.int64
                self._directory = np.zeros(len(counts) + 1, dtype=dtype)
                np.cumsum(counts, out=self._directory[1:])
        return self._directory


def is_run(layout: Layout, words: Numbers, weights: Numbers) -> bool:
    """True if these are the words and weights of a run in the layout."""
    if not len(words) or words.item(0) < 0 or words.item(-1) >> sum(layout.domain.bits):
        return False
    return bool((words[1:] > words[:-1]).all()) and bool(not_zero(weights).all())


def packed(layout: Layout, words: Numbers, weights: Numbers) -> PackedRun:
    """A run of words in any order. The arrays may be sorted in place."""
    bits = sum(layout.domain.bits)
    return beside(lambda: PackedRun(layout, *_each_once(*_in_order(words, weights, bits))), len(words))


def merged(older: PackedRun, newer: PackedRun) -> PackedRun:
    return beside(lambda: _merged_now(older, newer), len(older) + len(newer))


def _merged_now(older: PackedRun, newer: PackedRun) -> PackedRun:
    words = np.concatenate([older.words_at(None, newer.layout), newer.words])
    order = words.argsort(kind="stable")  # fast for words that consist of sorted runs
    weights = np.concatenate([older.weights, newer.weights]).take(order, axis=0)
    return PackedRun(newer.layout, *_each_once(words.take(order), weights))


def _each_once(words: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Words in order, each with the sum of its weights, without those that sum to 0."""
    differs = words[1:] != words[:-1]
    if np.count_nonzero(differs) < len(differs):
        starts = group_starts(differs)
        words, weights = words.take(starts), sum_groups(weights.astype(np.int64, copy=False), starts)
    there = not_zero(weights)
    if np.count_nonzero(there) < len(there):
        which = there.nonzero()[0]
        words, weights = words.take(which), weights.take(which, axis=0)
    return words, weights


def _in_order(words: Numbers, weights: Numbers, bits: int) -> tuple[Numbers, Numbers]:
    """Words in order, with their weights. Sorting numbers is many times as fast as finding their order, so small
    weights are put behind the words of so many `bits` where there is room.
    """
    if np.count_nonzero(words[1:] >= words[:-1]) == len(words) - 1:
        return words, weights
    columns = [weights] if weights.ndim == 1 else list(weights.T)
    lows = [int(column.min()) for column in columns]
    sizes = [(int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)]
    if bits + sum(sizes) > WORD_BITS:
        order = words.argsort()
        return words.take(order), weights.take(order, axis=0)
    both = words
    for column, low, size in zip(columns, lows, sizes, strict=True):
        both = (both << size) | (column - low) if size else both
    both = np.sort(both)
    unpacked = []
    for low, size in zip(reversed(lows), reversed(sizes), strict=True):
        unpacked.append((both & ((1 << size) - 1)) + low if size else np.full(len(both), low))
        both = both >> size if size else both
    return both, unpacked[0] if weights.ndim == 1 else np.stack(unpacked[::-1], axis=1)

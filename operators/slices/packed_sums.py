"""Counts and sums of groups, both in one word each: a row costs one access to memory in place of two."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays.layout import Words

_BITS: Final = 38
"""The bits of a sum. The bits above them are the count."""
_ONE: Final = 1 << _BITS
_MOST_SUM: Final = _ONE >> 1
_MOST_ROWS: Final = 1 << (62 - _BITS)
_BLOCKS: Final = 64
"""Words are worth it if they hold so many blocks of rows: then they are taken apart."""


class PackedSums:
    """The number of rows of each place, and the sum of their values, which are below 2^37 in all."""

    def __init__(self, size: int) -> None:
        self.words = np.zeros(size, np.int64)
        """Not 0 where there is a row."""
        self._rows = 0
        self._bound = 0

    @staticmethod
    def pays(rows: int, bound: int) -> bool:
        """Tests whether the words hold many blocks of so many rows, in which no sum is beyond the bound."""
        return bound * _BLOCKS < _MOST_SUM and rows * _BLOCKS < _MOST_ROWS

    def has_room(self, rows: int, bound: int) -> bool:
        return self._bound + bound < _MOST_SUM and self._rows + rows < _MOST_ROWS

    def add(self, at: Words, values: Words, bound: int) -> None:
        """Count a row with each of the values, at these places. There is room."""
        self._rows += len(at)
        self._bound += bound
        np.add.at(self.words, at, np.add(values, _ONE, dtype=np.int64))


def counts_and_sums(words: Words) -> tuple[Words, Words]:
    counts = words + _MOST_SUM
    counts >>= _BITS
    sums = counts << _BITS
    return counts, np.subtract(words, sums, out=sums)

"""Running results within blocks of neighbouring rows: from a block's first row on, and up to its last row."""

from __future__ import annotations

from math import isqrt
from typing import Any, Final, TypeAlias

import numpy as np

from ..arrays.layout import Places, Values

Function: TypeAlias = np.ufunc
"""An associative function of two values."""

any_sum: Final = np.errstate(over="ignore", invalid="ignore")
"""Sums of floats may be infinite or NaN: nobody is warned of them."""


class Blocks:
    """Neighbouring rows in blocks, which begin at the positions `begins`, of which the first is 0. There is a row.

    Long blocks are accumulated one by one. The others are accumulated together: the second rows of all, then the third
    rows of all, and so on. So n rows take about twice the square root of n calls, however long the blocks are.
    """

    def __init__(self, begins: Places, rows: int) -> None:
        lengths = np.diff(begins, append=rows)
        most = isqrt(rows)
        long = np.flatnonzero(lengths > most)
        self._long = [(int(begins[at]), int(begins[at] + lengths[at])) for at in long]
        short = np.flatnonzero((lengths > 1) & (lengths <= most))
        order = short[np.argsort(-lengths[short], kind="stable")]
        self._begins = begins[order]
        self._ends = self._begins + lengths[order] - 1
        above = np.cumsum(np.bincount(lengths[short], minlength=1)[::-1])[::-1]
        self._open = above[2:].tolist()  # the number of blocks with more than one row, more than two rows, ...

    @any_sum
    def from_first(self, function: Function, values: Values) -> Values:
        """For each row, the function of the values from the block's first row to the row, from left to right."""
        results: Values = values.copy()
        for begin, end in self._long:
            function.accumulate(values[begin:end], out=results[begin:end])
        for after, blocks in enumerate(self._open, 1):
            at = self._begins[:blocks] + after
            results[at] = function(results[at - 1], values[at])
        return results

    @any_sum
    def to_last(self, function: Function, values: Values) -> Values:
        """For each row, the function of the values from the row to the block's last row, from right to left."""
        results: Values = values.copy()
        for begin, end in self._long:
            backwards: Any = values[begin:end][::-1]
            results[begin:end] = function.accumulate(backwards)[::-1]
        for before, blocks in enumerate(self._open, 1):
            at = self._ends[:blocks] - before
            results[at] = function(results[at + 1], values[at])
        return results

"""The distance in time of rows that match, and the moment from which a row has no further match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..values.change import Numbers
from ..values.rows import Rows
from ..values.value_columns import Mask
from .timed_rows import numbers_of
from .window_closing import MOST, NEVER, Ticks, behind


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalClosing:
    """Pairs of rows: the right one's tick is at least the left one's less `before`, and at most the left one's plus
    `after`. A row is late if its tick is more than `lateness` ticks before the watermark.
    """

    before: int
    after: int
    lateness: int
    ticks: Ticks

    @property
    def lag(self) -> int:
        return self.lateness + max(self.before, self.after, 0)

    def first_open(self, ticks: Numbers) -> Numbers:
        return behind(ticks, self.lateness)

    def needed(self, tick: int, *, left: bool) -> int:
        """The least tick of a row of this side for which a match, or a deletion, can still come at this watermark."""
        return tick - self.lateness - max(self.after if left else self.before, 0)

    def near(self, left: Numbers, right: Numbers) -> Mask:
        """Flags the pairs of these ticks that match."""
        within: Mask = (right >= _moved(left, -self.before)) & (right <= _moved(left, self.after))
        if self.before < 0:
            within &= left <= MOST + self.before  # the first match of a later row is beyond all ticks
        if self.after < 0:
            within &= left >= NEVER - self.after
        return within


@dataclass(frozen=True, slots=True)
class Near:
    """A join's condition: flags the pairs whose ticks, the first columns of both sides, are near each other."""

    closing: IntervalClosing
    width: int
    """The columns of a left row."""

    def __call__(self, pairs: Rows) -> Mask:
        return self.closing.near(numbers_of(pairs), numbers_of(pairs, self.width))


def _moved(ticks: Numbers, by: int) -> Numbers:
    """The ticks so much later; the greatest or the least one where that is beyond it."""
    if by <= 0:
        return behind(ticks, -by)
    later: Numbers = np.where(ticks > MOST - by, MOST, ticks + by)
    return later

"""The rows of global batches that a rank has, by arithmetic on positions.

A global batch has the next `size` rows of the epoch's order. Rank r of n has a contiguous share of it. Batches go on
over the end of a window: its last rows are carried into the next window whole, since the batch that they begin may
turn out to be the last, short one, whose shares are others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .shuffle import Positions


def share(count: int, rank: int, ranks: int) -> tuple[int, int]:
    """The positions of a rank in a batch of `count` rows: (first, end)."""
    return count * rank // ranks, count * (rank + 1) // ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The batches that a loader takes: every `stride`-th from `offset` on, and of each a rank's share.

    In epoch `begun[0]`, the count of `offset` begins with batch `begun[1]`: there a loader of workers went on.
    """

    size: int
    rank: int = 0
    ranks: int = 1
    stride: int = 1
    offset: int = 0
    begun: tuple[int, int] = (0, 0)

    def of_epoch(self, epoch: int) -> Wanted:
        """The batches of an epoch, with their offset from batch 0 on."""
        if epoch != self.begun[0]:
            return self
        return replace(self, offset=(self.offset + self.begun[1]) % self.stride, begun=(0, 0))

    def share_of(self, rows: int) -> tuple[int, int]:
        """The positions of the rank's rows in a batch of so many: (first, end)."""
        return share(rows, self.rank, self.ranks)

    def takes(self, batch: int) -> bool:
        return batch % self.stride == self.offset


class Seam(NamedTuple):
    """The place between two windows: the number of rows of windows before that fill no batch, and that of the next
    batch.
    """

    carried: int
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCut:
    """A window's part in batches, of which the first is number `first`.

    The window's rows begin at `start`, behind `carried` rows of windows before. `positions` are the window's rows that
    the loader takes, in order: the shares of batches, then the rest, which is carried on from row `rest` of the window.
    A slice stands for positions that follow each other.
    """

    wanted: Wanted
    rows: int
    start: int
    carried: int
    first: int

    @property
    def full(self) -> int:
        """The number of full batches."""
        return (self.carried + self.rows - self.start) // self.wanted.size

    @property
    def seam(self) -> Seam:
        """The seam behind the window."""
        return Seam((self.carried + self.rows - self.start) % self.wanted.size, self.first + self.full)

    @property
    def numbers(self) -> range:
        """The numbers of the full batches that the loader takes."""
        skipped = (self.wanted.offset - self.first) % self.wanted.stride
        return range(self.first + skipped, self.first + self.full, self.wanted.stride)

    def row_of(self, batch: int) -> int:
        """The window's row at which a batch begins. Negative if the batch begins in a window before."""
        return self.start + (batch - self.first) * self.wanted.size - self.carried

    @property
    def rest(self) -> int:
        """The first row that no full batch has; negative if rows of windows before are among those."""
        return self.row_of(self.first + self.full)

    def carried_share(self) -> tuple[int, int]:
        """The carried rows in the first batch's share: (first, end)."""
        low, high = self.wanted.share_of(self.wanted.size)
        return min(low, self.carried), min(high, self.carried)

    def positions(self) -> Positions | slice:
        low, high = self.wanted.share_of(self.wanted.size)
        rest = max(self.rest, self.start)
        if high - low == self.wanted.size and self.wanted.stride == 1:
            return slice(self.start, self.rows)
        begins = np.fromiter(map(self.row_of, self.numbers), np.int64, len(self.numbers))
        taken = (begins[:, None] + np.arange(low, high)).ravel()
        return np.concatenate([taken[taken >= self.start], np.arange(rest, self.rows)])

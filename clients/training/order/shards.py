"""The shards of an epoch: parts of its rows of equal length, each read by the ranks that have rows of it.

The splits of an epoch, in their shuffled order, are cut into shards at fixed rows: shard s of n has rows s/n to
(s + 1)/n of all full batches. Batch b has the next rows of every shard. So a rank reads only the shards that its share
of a batch is in. The rows that fill no batch are the tail, behind all shards; every rank reads it.

The rows of a shard are shuffled within windows, as those of an epoch without shards are. All numbers of rows have to be
known beforehand: they are rows of the plan's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from .rank_shares import Wanted, share
from .shuffle import Positions, Shuffle, mixed, split_order

_OF_SHARDS: Final = 4


class SplitPart(NamedTuple):
    """Rows of a split's result."""

    split: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class ShardWindow:
    """Rows of a shard, from row `first` of it on, that are shuffled together. Without a key they keep their order."""

    shard: int
    first: int
    rows: int
    parts: tuple[SplitPart, ...]
    key: int | None


@dataclass(frozen=True, slots=True)
class EpochShards:
    """The windows of an epoch's shards. It has `full` batches, and `tail` rows that fill none. `counts` are the rows of
    each split's result.
    """

    counts: Sequence[int]
    full: int
    tail: int
    windows: tuple[ShardWindow, ...]
    tail_window: ShardWindow


def epoch_shards(
    counts: Sequence[int], shuffle: Shuffle | None, epoch: int, batch_size: int, shards: int
) -> EpochShards:
    """The shards of an epoch. `counts` are the rows of each split's result."""
    full, tail = divmod(sum(counts), batch_size)
    length = full * (batch_size // shards)
    order = split_order(len(counts), shuffle, epoch)
    window_rows = 0 if shuffle is None else shuffle.rows // shards
    seed = None if shuffle is None or shuffle.rows == 0 else shuffle.seed
    windows: list[ShardWindow] = []
    for shard, (begin, end) in enumerate(pairwise([length * at for at in range(shards + 1)])):
        first = 0
        for number, parts in enumerate(_grouped(_between(order, counts, begin, end), window_rows)):
            rows = sum(part.end - part.first for part in parts)
            key = None if seed is None else mixed(seed, _OF_SHARDS, epoch, shard, number)
            windows.append(ShardWindow(shard, first, rows, parts, key))
            first += rows
    parts = tuple(_between(order, counts, length * shards, length * shards + tail))
    key = None if seed is None else mixed(seed, _OF_SHARDS, epoch, shards, 0)
    return EpochShards(tuple(counts), full, tail, tuple(windows), ShardWindow(shards, 0, tail, parts, key))


def _between(order: Sequence[int], counts: Sequence[int], begin: int, end: int) -> Iterator[SplitPart]:
    """The rows from `begin` up to `end` of all splits, in their order."""
    at = 0
    for split in order:
        first, last = max(begin - at, 0), min(end - at, counts[split])
        if first < last:
            yield SplitPart(split, first, last)
        at += counts[split]


def _grouped(parts: Iterator[SplitPart], rows: int) -> Iterator[tuple[SplitPart, ...]]:
    """Neighbouring parts, as many as it takes to reach `rows` rows."""
    group: list[SplitPart] = []
    for part in parts:
        group.append(part)
        if sum(part.end - part.first for part in group) >= rows:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)


@dataclass(frozen=True, slots=True)
class ShardShares:
    """A rank's rows of the shards' parts of batches. Each part has `width` rows; of those of shard s, the rank has the
    ones from `of[s][0]` up to `of[s][1]`.
    """

    wanted: Wanted
    width: int
    of: dict[int, tuple[int, int]]

    @classmethod
    def among(cls, wanted: Wanted, shards: int) -> ShardShares:
        """The shares of a rank. A rank without rows still reads a shard, since that tells it how far batches go."""
        width = wanted.size // shards
        low, high = share(wanted.size, wanted.rank, wanted.ranks)
        inside = {
            shard: (max(low - shard * width, 0), min(high - shard * width, width))
            for shard in range(shards)
            if max(low, shard * width) < min(high, (shard + 1) * width)
        }
        return cls(wanted, width, inside or {min(low // width, shards - 1): (0, 0)})

    def windows(self, shards: EpochShards, start: int) -> list[ShardWindow]:
        """The windows that the rank reads for the batches from `start` on, in the order in which batches need them."""
        windows = [
            window
            for window in shards.windows
            if window.shard in self.of and window.first + window.rows > start * self.width
        ]
        return sorted(windows, key=lambda window: (window.first // self.width, window.shard))

    def positions(self, window: ShardWindow, start: int) -> Positions | slice:
        """The rank's rows of a window, in order, for the batches from `start` on."""
        low, high = self.of[window.shard]
        begin = max(start * self.width - window.first, 0)
        if (low, high) == (0, self.width) and self.wanted.stride == 1:
            return slice(begin, window.rows)
        rows = np.arange(begin, window.rows)
        batches, within = np.divmod(rows + window.first, self.width)
        taken = (low <= within) & (within < high) & (batches % self.wanted.stride == self.wanted.offset)
        positions: Positions = rows[taken]
        return positions

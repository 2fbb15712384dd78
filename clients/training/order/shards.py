"""The shards of an epoch: parts of its rows, each read by the ranks and workers that have rows of it.

The splits of an epoch, in their shuffled order, are cut at fixed rows into `turns` parts, and each of these into
`shards` shards of equal length. Batch b is of part b % turns: it has the next rows of every shard of the part. So a
rank reads only the shards that its share of a batch is in, and a worker only the parts that its batches are of. The
rows that fill no batch are the tail, behind all shards; every rank reads it.

The rows of a shard are shuffled within windows, as those of an epoch without shards are. All numbers of rows have to be
known beforehand: they are rows of the plan's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import gcd
from typing import Final, NamedTuple

import numpy as np

from .rank_shares import Wanted
from .shuffle import Positions, Shuffle, mixed, split_order

_OF_SHARDS: Final = 4


class SplitPart(NamedTuple):
    """Rows of a split's result."""

    split: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Grid:
    """The shards of an epoch: `shards` in each of `turns` parts. Part t has the batches t, t + turns, and so on."""

    shards: int
    turns: int = 1

    @property
    def count(self) -> int:
        return self.shards * self.turns

    def turn(self, shard: int) -> int:
        """The part that a shard is in."""
        return shard // self.shards

    def batches(self, turn: int, end: int) -> int:
        """The batches of a part among the first `end` batches of the epoch."""
        return len(range(turn, end, self.turns))


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
    counts: Sequence[int], shuffle: Shuffle | None, epoch: int, batch_size: int, grid: Grid
) -> EpochShards:
    """The shards of an epoch. `counts` are the rows of each split's result."""
    full, tail = divmod(sum(counts), batch_size)
    order = split_order(len(counts), shuffle, epoch)
    window_rows = 0 if shuffle is None else shuffle.rows // grid.count
    seed = None if shuffle is None or shuffle.rows == 0 else shuffle.seed
    lengths = [grid.batches(grid.turn(shard), full) * (batch_size // grid.shards) for shard in range(grid.count)]
    windows: list[ShardWindow] = []
    for shard, (begin, end) in enumerate(pairwise(accumulate(lengths, initial=0))):
        first = 0
        for number, parts in enumerate(_grouped(_between(order, counts, begin, end), window_rows)):
            rows = sum(part.end - part.first for part in parts)
            key = None if seed is None else mixed(seed, _OF_SHARDS, epoch, shard, number)
            windows.append(ShardWindow(shard, first, rows, parts, key))
            first += rows
    parts = tuple(_between(order, counts, full * batch_size, full * batch_size + tail))
    key = None if seed is None else mixed(seed, _OF_SHARDS, epoch, grid.count, 0)
    return EpochShards(tuple(counts), full, tail, tuple(windows), ShardWindow(grid.count, 0, tail, parts, key))


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
    ones from `of[s][0]` up to `of[s][1]`, in the batches of `wanted` alone.
    """

    wanted: Wanted
    grid: Grid
    width: int
    of: dict[int, tuple[int, int]]

    @classmethod
    def among(cls, wanted: Wanted, grid: Grid) -> ShardShares:
        """The shares of a rank. A rank without rows still reads a shard, since that tells it how far batches go."""
        width = wanted.size // grid.shards
        low, high = wanted.share_of(wanted.size)
        inside = {
            shard: (max(low - shard * width, 0), min(high - shard * width, width))
            for shard in range(grid.shards)
            if max(low, shard * width) < min(high, (shard + 1) * width)
        }
        inside = inside or {min(low // width, grid.shards - 1): (0, 0)}
        common = gcd(wanted.stride, grid.turns)
        turns = [turn for turn in range(grid.turns) if turn % common == wanted.offset % common]
        of = {turn * grid.shards + shard: rows for turn in turns for shard, rows in inside.items()}
        return cls(wanted, grid, width, of)

    def windows(self, shards: EpochShards, start: int) -> list[ShardWindow]:
        """The windows that the rank reads for the batches from `start` on, in the order in which batches need them."""
        windows = [
            window
            for window in shards.windows
            if window.shard in self.of and window.first + window.rows > self.first_row(window.shard, start)
        ]
        return sorted(windows, key=lambda window: (self._batch(window.shard, window.first), window.shard))

    def positions(self, window: ShardWindow, start: int) -> Positions | slice:
        """The rank's rows of a window, in order, for the batches from `start` on."""
        low, high = self.of[window.shard]
        begin = max(self.first_row(window.shard, start) - window.first, 0)
        if (low, high) == (0, self.width) and self.grid.turns % self.wanted.stride == 0:
            return slice(begin, window.rows)
        rows = np.arange(begin, window.rows)
        batches, within = np.divmod(rows + window.first, self.width)
        batches = batches * self.grid.turns + self.grid.turn(window.shard)
        taken = (low <= within) & (within < high) & (batches % self.wanted.stride == self.wanted.offset)
        positions: Positions = rows[taken]
        return positions

    def ready(self, reached: dict[int, int]) -> int:
        """The batches before which all rows are there, if shard s is read up to row `reached[s]`."""
        return min(self._batch(shard, row) for shard, row in reached.items())

    def shards_of(self, batch: int) -> Iterator[tuple[int, int]]:
        """(shard, rows of it) of a batch."""
        turn = batch % self.grid.turns
        return ((shard, high - low) for shard, (low, high) in self.of.items() if self.grid.turn(shard) == turn)

    def _batch(self, shard: int, row: int) -> int:
        """The batch that has a row of a shard."""
        return row // self.width * self.grid.turns + self.grid.turn(shard)

    def first_row(self, shard: int, batch: int) -> int:
        """The row of a shard behind all batches before this one."""
        return self.grid.batches(self.grid.turn(shard), batch) * self.width

"""Turns the windows of shards into batches: each batch has the next rows of every shard."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..proto.errors import Refused
from .batch import Batch, Position
from .batch_runs import Tail, check_has_batches
from .building.batch_layout import Columns, Layout, SplitRows
from .building.ready_runs import Ready, Run
from .building.row_gathering import joined, part, size_of
from .building.window_build import RowOrder
from .building.window_prefetch import Build, Builder, Runs
from .order.rank_shares import Wanted
from .order.shards import EpochShards, Grid, ShardShares, ShardWindow, SplitPart
from .order.shuffle import Positions
from .sources.training_splits import TrainingSplit

Epochs = Iterable[tuple[int, EpochShards, Sequence[TrainingSplit]]]


class ShardRuns:
    """The batches of a loader of shards from a position on, as runs: a build for each window that it has rows of."""

    def __init__(self, layout: Layout, wanted: Wanted, grid: Grid, tail: Tail, start: Position, *, source: str) -> None:
        self._layout = layout
        self._wanted = wanted
        self._grid = grid
        self._tail = tail
        self._start = start
        self._source = source

    def builds(self, epochs: Epochs) -> Iterator[Build]:
        """The builds of these epochs. They read the splits that the loader has rows of, and no others."""
        for epoch, shards, splits in epochs:
            first = self._start.batch if epoch == self._start.epoch else 0
            shares = ShardShares.among(self._wanted.of_epoch(epoch), self._grid)
            batches = _EpochBatches(self._layout, self._tail, epoch, shards, shares, first)
            for window in batches.windows():
                yield _WindowBuild(window, batches, self._source, splits)
            yield _EndBuild(batches)


class _EpochBatches:
    """The batches of an epoch from number `first` on, as the windows of its shards come."""

    def __init__(
        self, layout: Layout, tail: Tail, epoch: int, shards: EpochShards, shares: ShardShares, first: int
    ) -> None:
        self.layout = layout
        self.shards = shards
        self._tail = tail
        self._epoch = epoch
        self._shares = shares
        self._first = self._number = first
        self._count = tail.batches(shards.full, shards.tail)
        self._queues = {shard: _Queue(shares.first_row(shard, first)) for shard in shares.of}

    def windows(self) -> list[ShardWindow]:
        """The windows that have rows of the batches, in the order in which they are needed."""
        if self._first and self._first >= self._count:
            raise Refused(
                f"the state is at batch {self._first} of epoch {self._epoch}, which has {self._count:,} batches: give "
                "the loader the data and the plan that the state is of",
                reason="STATE_MISMATCH",
            )
        check_has_batches(self._epoch, sum(self.shards.counts), self._count)
        windows = self._shares.windows(self.shards, self._first)
        has_tail = self._tail.batches(0, self.shards.tail) and self._shares.wanted.takes(self.shards.full)
        return [*windows, self.shards.tail_window] if has_tail else windows

    def positions(self, window: ShardWindow) -> Positions | slice:
        """The positions of the rows of a window that batches have, in the window's order."""
        if window is not self.shards.tail_window:
            return self._shares.positions(window, self._first)
        first, end = self._share_of_tail()
        return np.arange(first, end) % self.shards.tail

    def runs(self, window: ShardWindow, rows: Columns) -> Iterator[Run]:
        """The run of the batches that a window completes, if there are any. The windows come in their order."""
        if window is self.shards.tail_window:
            yield self._last(rows)
            return
        queue = self._queues[window.shard]
        queue.add(rows)
        queue.reached = window.first + window.rows
        end = min(self._shares.ready({shard: queue.reached for shard, queue in self._queues.items()}), self.shards.full)
        ready = [self._ready(at) for at in range(self._number, end) if self._shares.wanted.takes(at)]
        self._number = max(self._number, end)
        if ready:
            yield self._run(ready)

    def end(self) -> Iterator[Run]:
        yield Run(self.layout, (), 0, Position(self._epoch + 1))

    def _ready(self, number: int) -> Ready:
        parts = [self._queues[shard].take(rows) for shard, rows in self._shares.shards_of(number)]
        columns = tuple(map(joined, zip(*parts, strict=True)))
        low, high = self._shares.wanted.share_of(self._shares.wanted.size)
        is_last = number + 1 == self._count
        after = Position(self._epoch + 1) if is_last else Position(self._epoch, number + 1)
        return Ready(columns, Batch(epoch=self._epoch, number=number, rows=high - low), after)

    def _last(self, rows: Columns) -> Run:
        """The tail, which fills no batch unless its rows are repeated."""
        first, end = self._share_of_tail()
        padding = max(0, end - max(first, self.shards.tail))
        batch = Batch(epoch=self._epoch, number=self.shards.full, rows=end - first, padding=padding)
        return self._run([Ready(rows, batch, Position(self._epoch + 1))])

    def _share_of_tail(self) -> tuple[int, int]:
        return self._tail.share(self._shares.wanted, self.shards.tail)

    def _run(self, ready: Sequence[Ready]) -> Run:
        return Run(self.layout, ready, sum(size_of(values) for one in ready for values in one.columns), None)


class _WindowBuild(NamedTuple):
    """A window of a shard, or the tail, of these splits."""

    window: ShardWindow
    batches: _EpochBatches
    source: str
    splits: Sequence[TrainingSplit]

    def build(self, builder: Builder) -> Runs:
        window, batches = self.window, self.batches
        columns = batches.layout.columns([self._part(builder, at) for at in window.parts])
        order = RowOrder(window.rows, None, window.key, builder.gathering.arrays)
        rows = builder.gathering.all_taken(columns, order.at(batches.positions(window)))
        return partial(batches.runs, window, rows)

    def _part(self, builder: Builder, at: SplitPart) -> SplitRows:
        read = list(builder.reader.read(self.source, [self.splits[at.split]]))
        return _cut(at, self.batches.shards.counts[at.split], read)


class _EndBuild(NamedTuple):
    """The end of an epoch, for which nothing is read."""

    batches: _EpochBatches

    def build(self, _: Builder) -> Runs:
        return self.batches.end


class _Queue:
    """The rows of a shard that wait for those of other shards. They come up to row `reached` of the shard."""

    def __init__(self, reached: int) -> None:
        self.reached = reached
        self._rows: deque[Columns] = deque()
        self._used = 0

    def add(self, rows: Columns) -> None:
        self._rows.append(rows)

    def take(self, count: int) -> Columns:
        """The next rows."""
        taken: list[Columns] = []
        while count or not taken:
            rows = self._rows[0]
            end = min(self._used + count, len(rows[0]))
            taken.append(tuple(part(values, self._used, end) for values in rows))
            count -= end - self._used
            self._used = end
            if end == len(rows[0]) and len(self._rows) > 1:
                self._rows.popleft()
                self._used = 0
        return taken[0] if len(taken) == 1 else tuple(map(joined, zip(*taken, strict=True)))


def _cut(at: SplitPart, count: int, batches: Sequence[pa.RecordBatch]) -> SplitRows:
    """The rows of a split that belong to a window."""
    rows = sum(batch.num_rows for batch in batches)
    if rows != count:
        raise Refused(
            f"split {at.split} gives {rows:,} rows; it was counted with {count:,} when the epoch's shards were made: "
            "the file or the plan's functions are not what they were",
            reason="STATE_MISMATCH",
        )
    kept, start = [], 0
    for batch in batches:
        low, high = max(at.first - start, 0), min(at.end - start, batch.num_rows)
        if low < high:
            kept.append(batch.slice(low, high - low))
        start += batch.num_rows
    return SplitRows(at.split, at.first, kept)

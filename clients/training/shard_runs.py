"""Turns the windows of shards into batches: each batch has the next rows of every shard."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import tee

import numpy as np
import pyarrow as pa

from ..proto.errors import Refused
from .batch import Batch, Position
from .batch_runs import Columns, Layout, Ready, RowOrder, Run, SplitRows, Tail, check_has_batches
from .order.rank_shares import Wanted, share
from .order.shards import EpochShards, Grid, ShardShares, ShardWindow, SplitPart
from .row_gathering import RowGathering, Values, joined, part, size_of
from .sources.training_splits import TrainingSplit
from .split_reader import SplitReader

Epochs = Iterable[tuple[int, EpochShards, Sequence[TrainingSplit]]]


class ShardRuns:
    """The batches of a loader of shards from a position on, as runs."""

    def __init__(
        self, layout: Layout, wanted: Wanted, grid: Grid, tail: Tail, start: Position, *, two_threads: bool = False
    ) -> None:
        self._layout = layout
        self._wanted = wanted
        self._grid = grid
        self._tail = tail
        self._start = start
        self._gathering = RowGathering(two_threads=two_threads)

    def read(self, reader: SplitReader, source: str, epochs: Epochs) -> Iterator[Run]:
        """The runs of these epochs. `reader` reads the splits that this rank has rows of, and no others."""
        ahead, shown = tee((epoch, shards, splits, self._windows(epoch, shards)) for epoch, shards, splits in epochs)
        coming = ([splits[at.split]] for _, _, splits, windows in ahead for window in windows for at in window.parts)
        results = reader.read(source, coming, None)
        try:
            for epoch, shards, _, windows in shown:
                yield from self._epoch(epoch, shards, windows, results)
        finally:
            self._gathering.close()

    def _first(self, epoch: int) -> int:
        return self._start.batch if epoch == self._start.epoch else 0

    def _shares(self, epoch: int) -> ShardShares:
        return ShardShares.among(self._wanted.of_epoch(epoch), self._grid)

    def _windows(self, epoch: int, shards: EpochShards) -> list[ShardWindow]:
        self._check_start(epoch, self._tail.batches(shards.full, shards.tail))
        shares = self._shares(epoch)
        windows = shares.windows(shards, self._first(epoch))
        has_tail = self._tail.batches(0, shards.tail) and shares.wanted.takes(shards.full)
        return [*windows, shards.tail_window] if has_tail else windows

    def _check_start(self, epoch: int, count: int) -> None:
        first = self._first(epoch)
        if first and first >= count:
            raise Refused(
                f"the state is at batch {first} of epoch {epoch}, which has {count:,} batches: give the loader the "
                "data and the plan that the state is of",
                reason="STATE_MISMATCH",
            )

    def _epoch(
        self,
        epoch: int,
        shards: EpochShards,
        windows: Sequence[ShardWindow],
        results: Iterator[Iterable[pa.RecordBatch]],
    ) -> Iterator[Run]:
        number = first = self._first(epoch)
        shares = self._shares(epoch)
        queues = {shard: _Queue(shares.first_row(shard, first)) for shard in shares.of}
        count = self._tail.batches(shards.full, shards.tail)
        check_has_batches(epoch, sum(shards.counts), count)
        for window in windows:
            columns = self._layout.columns(
                [_cut(at, shards.counts[at.split], list(next(results))) for at in window.parts]
            )
            order = RowOrder(window.rows, None, window.key, self._gathering)
            if window is shards.tail_window:
                yield self._last(epoch, shards, columns, order)
                continue
            chosen = order.at(shares.positions(window, first))
            queue = queues[window.shard]
            queue.add(self._gathering.all_taken(columns, chosen))
            queue.reached = window.first + window.rows
            end = min(shares.ready({shard: queue.reached for shard, queue in queues.items()}), shards.full)
            taken = [at for at in range(number, end) if shares.wanted.takes(at)]
            ready = [self._ready(epoch, at, queues, shares, count) for at in taken]
            number = max(number, end)
            if ready:
                yield Run(self._layout, tuple(ready), sum(map(_ready_bytes, ready)), None)
        yield Run(self._layout, (), 0, Position(epoch + 1))

    def _ready(self, epoch: int, number: int, queues: Mapping[int, _Queue], shares: ShardShares, count: int) -> Ready:
        parts = [queues[shard].take(rows) for shard, rows in shares.shards_of(number)]
        columns = tuple(map(joined, zip(*parts, strict=True)))
        low, high = share(self._wanted.size, self._wanted.rank, self._wanted.ranks)
        after = Position(epoch + 1) if number + 1 == count else Position(epoch, number + 1)
        return Ready(columns, Batch(epoch=epoch, number=number, rows=high - low), after)

    def _last(self, epoch: int, shards: EpochShards, columns: Sequence[Sequence[Values]], order: RowOrder) -> Run:
        """The tail, which fills no batch unless its rows are repeated."""
        size = self._wanted.size if self._tail is Tail.PAD else shards.tail
        first, end = share(size, self._wanted.rank, self._wanted.ranks)
        chosen = order.at(np.arange(first, end) % shards.tail)
        rows = tuple(self._gathering.taken(parts, chosen) for parts in columns)
        padding = max(0, end - max(first, shards.tail))
        batch = Batch(epoch=epoch, number=shards.full, rows=end - first, padding=padding)
        return Run(self._layout, (Ready(rows, batch, Position(epoch + 1)),), sum(map(size_of, rows)), None)


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


def _ready_bytes(ready: Ready) -> int:
    return sum(map(size_of, ready.columns))

"""Turns windows into batches: cuts the loader's share of each batch from the windows' rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from enum import Enum

import numpy as np

from ..proto.errors import ExecutionError
from .batch import Batch, Position
from .building.batch_layout import Columns, Layout
from .building.ready_runs import Ready, Run
from .building.row_gathering import RowGathering, Values, even_parts, joined, own, part, size_of
from .building.window_build import ReadWindow, WindowBuild
from .order.rank_shares import Seam, Wanted, WindowCut


class Tail(Enum):
    """The treatment of the last rows of an epoch, which fill no batch."""

    SHORT = "short"
    DROP = "drop"
    PAD = "pad"

    def batches(self, full: int, rest: int) -> int:
        """The batches of an epoch of so many full ones and a rest of rows."""
        return full + (rest > 0 and self is not Tail.DROP)

    def share(self, wanted: Wanted, rest: int) -> tuple[int, int]:
        """The positions of a rank's rows in the batch of the rest: (first, end). Behind the rest, its rows repeat."""
        return wanted.share_of(wanted.size if self is Tail.PAD else rest)


def check_has_batches(epoch: int, rows: int, batches: int) -> None:
    """Raise `ExecutionError` if an epoch has no batch: a loader without end would read for ever."""
    if not rows:
        raise ExecutionError(
            f"epoch {epoch} has no rows: the plan gives none for this data, or weights and packing leave none",
            reason="NO_DATA",
        )
    if not batches:
        raise ExecutionError(
            f"epoch {epoch} has {rows:,} rows, which fill no batch, and drop_last=True leaves them out: make "
            "batch_size smaller, or leave drop_last out",
            reason="NO_DATA",
        )


def check_has_given(before: int, now: int, wanted: Wanted, epoch: int) -> int:
    """The number of batches that a loader without end has given by `now`. Raises `ExecutionError` if an epoch gave it
    none: it might read for ever.
    """
    if now > before:
        return now
    raise ExecutionError(
        f"epoch {epoch} has no batch for worker {wanted.offset} of {wanted.stride}, and with epochs=None the "
        "loader might go on without one for ever: give it fewer workers, or make batch_size smaller",
        reason="NO_DATA",
    )


class BatchRuns:
    """The batches of a loader from a position on, as runs: a build for each window."""

    def __init__(self, layout: Layout, wanted: Wanted, tail: Tail, position: Position) -> None:
        self._layout = layout
        self._wanted = wanted
        self._tail = tail
        self._position = position
        self._carry: Columns | None = None
        self._epoch_rows = position.batch
        self._gathering = RowGathering()

    def builds(self, windows: Iterable[ReadWindow]) -> Iterator[WindowBuild]:
        """The builds of these windows, of which the first one has the position."""
        before: Future[Seam] = Future()
        before.set_result(Seam(0, self._position.batch))
        start = self._position.row
        for window in windows:
            wanted = self._wanted.of_epoch(window.epoch)
            build = WindowBuild(window, self._layout, wanted, start, before, self._runs)
            yield build
            before, start = build.after, 0

    def _runs(self, window: ReadWindow, cut: WindowCut, rows: Columns) -> Iterator[Run]:
        """The run of a window that was built, if it has any batch. The windows come in their order."""
        ready, used = self._full_batches(window, cut, rows)
        rest = tuple(own(part(values, used, len(values))) for values in rows)
        if cut.full == 0 and self._carry is not None:
            rest = tuple(map(_both, self._carry, rest))
        self._carry = None if window.last else rest
        self._epoch_rows += cut.rows
        if window.last:
            ready += self._end(window, cut.first + cut.full, rest)
        end = Position(window.epoch + 1) if window.last else None
        run = Run(self._layout, tuple(ready), sum(map(size_of, rows)), end)
        if run.has_any():
            yield run

    def _full_batches(self, window: ReadWindow, cut: WindowCut, rows: Columns) -> tuple[list[Ready], int]:
        """The batches, and how many of the taken rows they have."""
        low, high = self._wanted.share_of(self._wanted.size)
        numbers, used = cut.numbers, 0
        batches: list[Columns] = []
        if self._carry is not None and numbers and cut.row_of(numbers[0]) < cut.start:
            first, end = cut.carried_share()
            used = high - low - (end - first)
            begun = (part(values, first, end) for values in self._carry)
            batches.append(tuple(map(_both, begun, (part(values, 0, used) for values in rows))))
        whole = len(numbers) - len(batches)
        batches += zip(*(even_parts(values, used, high - low, whole) for values in rows), strict=True)
        ready = [
            Ready(columns, Batch(epoch=window.epoch, number=number, rows=high - low), after)
            for number, columns, after in zip(numbers, batches, self._after_each(window, cut), strict=True)
        ]
        return ready, used + whole * (high - low)

    def _after_each(self, window: ReadWindow, cut: WindowCut) -> Iterator[Position]:
        """The position after each full batch that the loader takes."""
        numbers, end = cut.numbers, cut.rows
        if window.last and self._tail is Tail.DROP:  # the rows behind the last full batch are left out
            end = cut.row_of(cut.first + cut.full)
        rows = range(cut.row_of(numbers.start + 1), cut.rows + 1, self._wanted.size * numbers.step)
        for number, row in zip(numbers, rows, strict=False):
            if row < end:
                yield Position(window.epoch, number + 1, window.number, row)
            elif window.last:
                yield Position(window.epoch + 1)
            else:
                yield Position(window.epoch, number + 1, window.number + 1)

    def _end(self, window: ReadWindow, number: int, rest: Columns) -> list[Ready]:
        """The epoch's last batch, number `number`, if rows are left for one. What follows is another epoch."""
        rows, self._epoch_rows = self._epoch_rows, 0
        left = len(rest[0])
        check_has_batches(window.epoch, rows, self._tail.batches(number, left))
        if left == 0 or self._tail is Tail.DROP or not self._wanted.of_epoch(window.epoch).takes(number):
            return []
        first, end = self._tail.share(self._wanted, left)
        columns = tuple(self._gathering.taken([values], np.arange(first, end) % left) for values in rest)
        padding = max(0, end - max(first, left))
        batch = Batch(epoch=window.epoch, number=number, rows=end - first, padding=padding)
        return [Ready(columns, batch, Position(window.epoch + 1))]


def _both(first: Values, second: Values) -> Values:
    return joined([first, second])

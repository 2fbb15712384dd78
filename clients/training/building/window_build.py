"""Builds a window: reads its rows, and puts them into their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import ExecutionError, InvalidRequest, Refused
from ..batch_columns import is_list_of_numbers
from ..order.rank_shares import Seam, Wanted, WindowCut
from ..order.reused_memory import ReusedMemory
from ..order.shuffle import Positions, Window, permutation, repeats
from ..packing import Pack, packed
from ..split_reader import SplitReader
from .batch_layout import Columns, Layout, SplitRows
from .ready_runs import Run
from .row_gathering import Values
from .row_placing import RowPlacing
from .window_prefetch import Builder, Runs

MOST_COPIES: Final = 1_000_000
"""The most copies of a row in an epoch."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReadWindow:
    """A window. `results` has a reader read its splits, in order, and gives the result's rows of each. `rows` is their
    number, where it is known before they are read: then the rows of several splits may come together.
    """

    epoch: int
    number: int
    window: Window
    last: bool
    rows: int | None
    results: Callable[[SplitReader], Iterator[Iterable[pa.RecordBatch]]]


class WindowBuild:
    """A window whose first batch begins with its row `start`, or with rows of windows before: `before` will have the
    seam. `runs` makes runs of what was built. `after` gets the seam behind the window, or the error of its build.
    """

    def __init__(
        self,
        window: ReadWindow,
        layout: Layout,
        wanted: Wanted,
        start: int,
        before: Future[Seam],
        runs: Callable[[ReadWindow, WindowCut, Columns], Iterator[Run]],
    ) -> None:
        self._window = window
        self._layout = layout
        self._wanted = wanted
        self._start = start
        self._before = before
        self._runs = runs
        self._places_rows = not (window.rows is None or window.window.key is None or layout.tells_rows_apart)
        self.after: Future[Seam] = Future()
        if window.last:
            self.after.set_result(Seam(0, 0))
        elif window.rows is not None and self._places_rows and before.done() and before.exception() is None:
            self._cut(window.rows)

    def build(self, builder: Builder) -> Runs:
        try:
            cut, rows = (self._placed if self._places_rows else self._collected)(builder)
        except BaseException as error:
            if not self.after.done():
                self.after.set_exception(error)
            raise
        return partial(self._runs, self._window, cut, rows)

    def _cut(self, rows: int) -> WindowCut:
        """The cut of the window's rows, once those of the windows before are counted."""
        if self._start > rows:
            window = self._window
            raise Refused(
                f"the state is at row {self._start} of window {window.number} of epoch {window.epoch}, which has "
                f"{rows} rows: give the loader the data and the plan that the state is of",
                reason="STATE_MISMATCH",
            )
        carried, first = self._before.result()
        cut = WindowCut(wanted=self._wanted, rows=rows, start=self._start, carried=carried, first=first)
        if not self.after.done():
            self.after.set_result(cut.seam)
        return cut

    def _placed(self, builder: Builder) -> tuple[WindowCut, Columns]:
        """The window's rows, of which wide ones are written to their places as they are read, so that the window is in
        memory only once.
        """
        arrays = builder.gathering.arrays
        order = RowOrder(self._window.rows or 0, None, self._window.window.key, arrays)
        placing = RowPlacing(builder.gathering, len(order), lambda: order.at(self._cut(len(order)).positions()))
        for batch in chain.from_iterable(self._window.results(builder.reader)):
            placing.add(self._layout.columns([SplitRows(0, 0, [batch])]), batch.num_rows)
        return self._cut(len(order)), placing.columns(partial(self._layout.columns, []))

    def _collected(self, builder: Builder) -> tuple[WindowCut, Columns]:
        """The window's rows, all of which are read first."""
        columns, order = self._rows(builder)
        cut = self._cut(len(order))
        return cut, builder.gathering.all_taken(columns, order.at(cut.positions()))

    def _rows(self, builder: Builder) -> tuple[list[list[Values]], RowOrder]:
        """The columns of the window in the parts in which they were read, and the order of its rows."""
        layout, window, gathering = self._layout, self._window, builder.gathering
        results = [list(batches) for batches in window.results(builder.reader)]
        splits = zip(window.window.splits, results, strict=True)
        columns = layout.columns([SplitRows(split, 0, result) for split, result in splits])
        copies = None if layout.weight is None else self._copies(results, layout.weight)
        count = sum(batch.num_rows for result in results for batch in result)
        order = RowOrder(count, copies, window.window.key, gathering.arrays)
        if layout.pack is None:
            return columns, order
        lists = gathering.taken(columns[0], order.at(slice(0, len(order))))
        rows = packed(_lists(lists, layout.pack), layout.pack)
        return [[column] for column in rows], RowOrder(len(rows[0]), None, None, gathering.arrays)

    def _copies(self, results: Sequence[Sequence[pa.RecordBatch]], weight: str) -> Positions:
        """The row of each copy of a row, by the weights."""
        window = self._window
        copies = [
            repeats(_weights(result, weight), self._layout.seed, window.epoch, split)
            for split, result in zip(window.window.splits, results, strict=True)
        ]
        counts = np.concatenate(copies)
        return np.repeat(np.arange(len(counts)), counts)


class RowOrder:
    """The rows of a window in their order: the copies of rows by weight, permuted by a key."""

    def __init__(self, rows: int, copies: Positions | None, key: int | None, arrays: ReusedMemory) -> None:
        self._rows = rows if copies is None else len(copies)
        self._copies = copies
        self._key = key
        self._arrays = arrays

    def __len__(self) -> int:
        return self._rows

    def at(self, positions: Positions | slice) -> Positions | slice:
        """The rows as they were read that stand at these positions."""
        if self._key is not None:
            positions = permutation(self._rows, self._key, self._arrays)[positions]
        return positions if self._copies is None else self._copies[positions]


def _weights(result: Sequence[pa.RecordBatch], name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    columns = [batch.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for batch in result]
    weights = np.concatenate(columns) if columns else np.empty(0)
    if not ((weights >= 0) & (weights <= MOST_COPIES)).all():  # false for NaN, too, which a null becomes
        raise ExecutionError(
            f"column {name!r} has weights that are null, negative, not finite or above {MOST_COPIES:,}",
            reason="BAD_WEIGHTS",
        )
    return weights


def _lists(values: Values, pack: Pack) -> pa.Array:
    if isinstance(values, pa.Array) and is_list_of_numbers(values.type):
        return values
    raise InvalidRequest(f"column {pack.column!r} cannot be packed: it has no lists of numbers", reason="WRONG_SHAPE")

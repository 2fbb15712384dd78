"""Turns windows into batches: gathers a window's rows, permutes them, and cuts the loader's share of each batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain, starmap
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ..proto.errors import ExecutionError, InvalidRequest, Refused
from .batch import Batch, Position
from .batch_columns import Form, is_list_of_numbers
from .order.rank_shares import Wanted, WindowCut, share
from .order.shuffle import Positions, Window, permutation, repeats
from .packing import Pack, packed
from .row_gathering import RowGathering, Values, even_parts, joined, own, part, size_of
from .row_placing import RowPlacing

Columns: TypeAlias = tuple[Values, ...]
Chosen: TypeAlias = Callable[[], Positions | slice]
Taken: TypeAlias = Callable[[Chosen], Columns]
"""Takes the rows of a window at some positions, which it asks for once. May be called once."""

WORTH_ROWS: Final = 16_384
"""Fewer rows are permuted sooner than a second thread begins to."""


MOST_COPIES: Final = 1_000_000
"""The most copies of a row in an epoch."""


Given: TypeAlias = tuple[Batch | None, Position]
"""A batch with the position after it; at the end of an epoch a position alone."""


class Tail(Enum):
    """The treatment of the last rows of an epoch, which fill no batch."""

    SHORT = "short"
    DROP = "drop"
    PAD = "pad"

    def batches(self, full: int, rest: int) -> int:
        """The batches of an epoch of so many full ones and a rest of rows."""
        return full + (rest > 0 and self is not Tail.DROP)


class SplitRows(NamedTuple):
    """Rows of a split's result, from row `first` on."""

    split: int
    first: int
    batches: Sequence[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of batches, and what becomes of rows on the way to them.

    By the column `weight`, rows are repeated or left out. `provenance` has the forms of the number of each row's split
    and of its row in the split's result, if batches have them. With `pack`, batches have the
    columns of `packed` instead.
    """

    schema: pa.Schema
    forms: tuple[Form, ...]
    provenance: tuple[Form, ...] = ()
    weight: str | None = None
    seed: int = 0
    pack: Pack | None = None
    packed: tuple[Form, ...] = ()

    def columns(self, splits: Sequence[SplitRows]) -> list[list[Values]]:
        """The columns of the rows of these splits, in the parts in which they were read."""
        batches = [batch for split in splits for batch in split.batches]
        columns = [
            form.parts([batch.column(form.name) for batch in batches], self.schema.field(form.name).type)
            for form in self.forms
        ]
        if self.provenance:
            counts = [sum(batch.num_rows for batch in split.batches) for split in splits]
            firsts = [split.first for split in splits]
            columns.append([np.repeat(np.array([split.split for split in splits], np.int64), counts)])
            columns.append(
                [np.concatenate([np.arange(first, first + n) for first, n in zip(firsts, counts, strict=True)])]
            )
        return columns

    def delivered(self, columns: Columns) -> dict[str, object]:
        return {form.name: form.delivered(column) for form, column in zip(self._shown(), columns, strict=True)}

    def names_of_arrays(self) -> tuple[str, ...] | None:
        """The columns' names if all columns are delivered as they are; None if one is not."""
        forms = self._shown()
        return tuple(form.name for form in forms) if all(form.is_array for form in forms) else None

    @property
    def tells_rows_apart(self) -> bool:
        """True if a row's split, or the row itself, decides about what batches have of it."""
        return self.weight is not None or self.pack is not None or bool(self.provenance)

    def _shown(self) -> tuple[Form, ...]:
        return self.packed or (*self.forms, *self.provenance)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReadWindow:
    """A window with the result's rows of each of its splits, which can be taken once, in order. `rows` is their number,
    where it is known before they are read: then the rows of several splits may come together.
    """

    epoch: int
    number: int
    window: Window
    last: bool
    rows: int | None
    results: Iterable[Iterable[pa.RecordBatch]]


class Ready(NamedTuple):
    """A batch with the position after it, and those of its columns that are not in it, in the user's form, yet."""

    columns: Columns
    batch: Batch
    after: Position


@dataclass(slots=True, eq=False)
class Run:
    """Batches that end in one window, and maybe the end of their epoch. Their columns are parts of few arrays. A batch
    leaves the run when it is given out: so its user frees each batch, and nobody waits while all are freed. `batches`
    is the number of all of them.

    Arrays that are delivered as they are get into their batches here, on the thread that builds ahead. Then all that
    the user waits for is to take a batch from `_filled`.
    """

    layout: Layout
    ready: Sequence[Ready]
    bytes: int
    end: Position | None
    batches: int = 0
    _filled: deque[Given | None] | None = None

    def __post_init__(self) -> None:
        self.batches = len(self.ready)
        names = self.layout.names_of_arrays()
        for columns, batch, after in self.ready:
            batch.after = after
            if names is not None:
                batch.update(zip(names, columns, strict=True))
        if names is not None:  # else the user would wait while the columns' parts are freed
            self._filled = deque((batch, after) for _, batch, after in self.ready)
            self._filled += [None] if self.end is None else [(None, self.end), None]
            self.ready = ()

    def has_any(self) -> bool:
        """True if it has a batch, or the end of an epoch."""
        return bool(self.batches) or self.end is not None

    def __iter__(self) -> Iterator[Given]:
        """The batches, each with the position after it. An epoch's end is a position without a batch."""
        left, self.ready = deque(self.ready), ()
        return self._converted(left) if self._filled is None else iter(self._filled.popleft, None)

    def _converted(self, left: deque[Ready]) -> Iterator[Given]:
        while left:
            ready = left.popleft()
            ready.batch.update(self.layout.delivered(ready.columns))
            yield ready.batch, ready.after
        if self.end is not None:
            yield None, self.end


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


class BatchRuns:
    """The batches of a loader from a position on, as runs."""

    def __init__(
        self, layout: Layout, wanted: Wanted, tail: Tail, position: Position, *, two_threads: bool = False
    ) -> None:
        self._layout = layout
        self._wanted = wanted
        self._tail = tail
        self._start = position.row
        self._batch = position.batch
        self._carry: Columns | None = None
        self._epoch_rows = position.batch
        self._gathering = RowGathering(two_threads=two_threads)

    def of(self, windows: Iterable[ReadWindow]) -> Iterator[Run]:
        # Nothing here keeps a run while the next one is built: a window may be a large part of the memory.
        try:
            yield from filter(Run.has_any, starmap(self._run, self._ordered(windows)))
        finally:
            self._gathering.close()

    def _ordered(self, windows: Iterable[ReadWindow]) -> Iterator[tuple[ReadWindow, RowOrder | None]]:
        """The windows, with the order of those whose rows are known before they are read. The second thread begins with
        the order of the next one before a window is read.
        """
        orders = ((window, self._known_order(window)) for window in windows)
        ordered = next(orders, None)
        while ordered is not None:
            following = next(orders, None)
            yield ordered
            ordered = following

    def _run(self, window: ReadWindow, known: RowOrder | None) -> Run:
        order, taken = self._collected(window) if known is None else (known, self._placed(window, known))
        count = len(order)
        if self._start > count:
            raise Refused(
                f"the state is at row {self._start} of window {window.number} of epoch {window.epoch}, which has "
                f"{count} rows: give the loader the data and the plan that the state is of",
                reason="STATE_MISMATCH",
            )
        wanted = self._wanted.of_epoch(window.epoch)
        cut = WindowCut(wanted=wanted, rows=count, start=self._start, carried=self._carried, first=self._batch)
        rows = taken(lambda: order.at(cut.positions()))
        ready, used = self._full_batches(window, cut, rows)
        rest = tuple(own(part(values, used, len(values))) for values in rows)
        if cut.full == 0 and self._carry is not None:
            rest = tuple(map(_both, self._carry, rest))
        self._carry, self._batch, self._start = rest, cut.first + cut.full, 0
        self._epoch_rows += count
        if window.last:
            ready += self._end(window)
        end = Position(window.epoch + 1) if window.last else None
        return Run(self._layout, tuple(ready), sum(map(size_of, rows)), end)

    @property
    def _carried(self) -> int:
        return 0 if self._carry is None else len(self._carry[0])

    def _full_batches(self, window: ReadWindow, cut: WindowCut, rows: Columns) -> tuple[list[Ready], int]:
        """The batches, and how many of the taken rows they have."""
        low, high = share(self._wanted.size, self._wanted.rank, self._wanted.ranks)
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

    def _end(self, window: ReadWindow) -> list[Ready]:
        """The epoch's last batch, if rows are left for one. What follows is another epoch."""
        left, number, carry = self._carried, self._batch, self._carry or ()
        rows, self._epoch_rows = self._epoch_rows, 0
        self._carry, self._batch = None, 0
        check_has_batches(window.epoch, rows, self._tail.batches(number, left))
        if left == 0 or self._tail is Tail.DROP or not self._wanted.of_epoch(window.epoch).takes(number):
            return []
        size = self._wanted.size if self._tail is Tail.PAD else left
        first, end = share(size, self._wanted.rank, self._wanted.ranks)
        columns = tuple(self._gathering.taken([values], np.arange(first, end) % left) for values in carry)
        padding = max(0, end - max(first, left))
        batch = Batch(epoch=window.epoch, number=number, rows=end - first, padding=padding)
        return [Ready(columns, batch, Position(window.epoch + 1))]

    def _known_order(self, window: ReadWindow) -> RowOrder | None:
        """The order of a window's rows; None if the place of each of them is not known before they are read."""
        if window.rows is None or window.window.key is None or self._layout.tells_rows_apart:
            return None
        order = RowOrder(window.rows, None, window.window.key, self._gathering)
        order.begin()
        return order

    def _placed(self, window: ReadWindow, order: RowOrder) -> Taken:
        """A function that reads a window's rows: wide ones are written to their places at once, so that the window is
        in memory only once.
        """

        def taken(chosen: Chosen) -> Columns:
            placing = RowPlacing(self._gathering, len(order), chosen)
            for batch in chain.from_iterable(window.results):
                placing.add(self._layout.columns([SplitRows(0, 0, [batch])]), batch.num_rows)
            return placing.columns(self._empty)

        return taken

    @cached_property
    def _empty(self) -> list[list[Values]]:
        """The columns without rows, made once: to make an array of Arrow gives up the interpreter's lock."""
        return self._layout.columns([])

    def _collected(self, window: ReadWindow) -> tuple[RowOrder, Taken]:
        """The order of a window's rows, all of which are read first, and a function that takes them."""
        columns, order = self._rows(window)
        return order, lambda chosen: self._gathering.all_taken(columns, chosen())

    def _rows(self, window: ReadWindow) -> tuple[list[list[Values]], RowOrder]:
        """The columns of a window in the parts in which they were read, and the order of its rows."""
        layout = self._layout
        results = [list(batches) for batches in window.results]
        splits = zip(window.window.splits, results, strict=True)
        columns = layout.columns([SplitRows(split, 0, result) for split, result in splits])
        copies = None if layout.weight is None else self._copies(window, results, layout.weight)
        count = sum(batch.num_rows for result in results for batch in result)
        order = RowOrder(count, copies, window.window.key, self._gathering)
        if layout.pack is None:
            return columns, order
        lists = self._gathering.taken(columns[0], order.at(slice(0, len(order))))
        rows = packed(_lists(lists, layout.pack), layout.pack)
        return [[column] for column in rows], RowOrder(len(rows[0]), None, None, self._gathering)

    def _copies(self, window: ReadWindow, results: Sequence[Sequence[pa.RecordBatch]], weight: str) -> Positions:
        """The row of each copy of a row, by the weights."""
        copies = [
            repeats(_weights(result, weight), self._layout.seed, window.epoch, split)
            for split, result in zip(window.window.splits, results, strict=True)
        ]
        counts = np.concatenate(copies)
        return np.repeat(np.arange(len(counts)), counts)


class RowOrder:
    """The rows of a window in their order: the copies of rows by weight, permuted by a key."""

    def __init__(self, rows: int, copies: Positions | None, key: int | None, gathering: RowGathering) -> None:
        self._rows = rows if copies is None else len(copies)
        self._copies = copies
        self._key = key
        self._gathering = gathering
        self._begun: Future[Positions] | None = None

    def __len__(self) -> int:
        return self._rows

    def begin(self) -> None:
        """Have the second thread, if there is one, permute many rows, while the caller reads them."""
        beside = self._gathering.beside
        if beside is not None and self._key is not None and self._rows >= WORTH_ROWS:
            self._begun = beside.submit(permutation, self._rows, self._key, self._gathering.arrays)

    def at(self, positions: Positions | slice) -> Positions | slice:
        """The rows as they were read that stand at these positions. May be called once."""
        if self._begun is not None:
            positions, self._begun = self._begun.result()[positions], None
        elif self._key is not None:
            positions = permutation(self._rows, self._key, self._gathering.arrays)[positions]
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


def _both(first: Values, second: Values) -> Values:
    return joined([first, second])

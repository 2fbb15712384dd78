"""Section: the rows of one key, sorted in each of several runs, and positions between these rows.

A place is given by the number of rows before it in each run. Rows are found by binary search, column by column. A row
that is in one run and not in another is before or behind the same place in both. So the rows around a row are taken
from all runs without a look at the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...arrays.ordering import Order
from ..values.change import Numbers
from ..values.order_codes import sort_key
from ..values.plain_values import plain
from ..values.rows import Rows
from ..values.value_columns import ArrowColumn, Column, FixedColumn

Position: TypeAlias = tuple[int, ...]
"""A place: the number of each run's rows before it."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """The rows `start` to `stop` of a run, which are in order. `sums` are the sums of all weights up to each row; None
    where each weight is 1.
    """

    rows: Rows
    weights: Numbers
    start: int
    stop: int
    sums: Numbers | None

    def weight(self, start: int, stop: int) -> int:
        if self.sums is None:
            return stop - start
        return int(self.sums[stop - 1] if stop else 0) - int(self.sums[start - 1] if start else 0)


class Section:
    """A section: rows in `orders`, which tell different rows apart, in each of the stretches. A row to look for has as
    many columns as `orders` name.
    """

    def __init__(self, stretches: Sequence[Stretch], orders: Sequence[Order]) -> None:
        self._stretches = tuple(stretches)
        self._orders = tuple(orders)
        self.begin: Position = tuple(stretch.start for stretch in stretches)
        self.end: Position = tuple(stretch.stop for stretch in stretches)

    def position(self, row: Rows, *, behind: bool = False, columns: int | None = None) -> Position:
        """The place before or `behind` a row and the rows that are alike in the first `columns` of the orders (in all,
        if `columns` is None).
        """
        orders = self._orders[:columns]
        return tuple(_searched(stretch, row, orders, behind=behind) for stretch in self._stretches)

    def weight(self, start: Position, stop: Position, runs: slice = slice(None)) -> int:
        """The weight of the rows from one place to another, in some of the runs."""
        stretches = zip(self._stretches[runs], start[runs], stop[runs], strict=True)
        return sum(stretch.weight(first, last) for stretch, first, last in stretches)

    def behind(self, start: Position, rows: int, columns: int | None = None) -> Position:
        """A place with at least so many entries between `start` and itself, or the end."""
        left = [stop - at for stop, at in zip(self.end, start, strict=True)]
        if max(left, default=0) <= rows:
            return self.end
        run = left.index(max(left))
        return self.position(self._row(run, start[run] + rows), behind=True, columns=columns)

    def ahead(self, stop: Position, weight: int, columns: int | None = None, runs: slice = slice(None)) -> Position:
        """A place with rows of at least this weight, in some of the runs, between itself and `stop`; or the
        beginning.
        """
        at, step = stop, weight
        while (short := weight - self.weight(at, stop, runs)) > 0 and at != self.begin:
            left = [position - start for position, start in zip(at, self.begin, strict=True)]
            step = max(step, short)
            run = left.index(max(left))
            if left[run] < step:
                return self.begin
            at = self.position(self._row(run, at[run] - step), columns=columns)
            step *= 2
        return at

    def _row(self, run: int, at: int) -> Rows:
        return self._stretches[run].rows.take(np.array([at]))


def _searched(stretch: Stretch, row: Rows, orders: Sequence[Order], *, behind: bool) -> int:
    """The number of the run's rows before the row, or before it and alike."""
    start, stop = stretch.start, stretch.stop
    for order in orders:
        if start == stop:
            break
        start, stop = _alike(stretch.rows.columns[order.column], row.columns[order.column], order, start, stop)
    return stop if behind else start


def _alike(column: Column, value: Column, order: Order, start: int, stop: int) -> tuple[int, int]:
    """The range of the rows `start` to `stop` that have the first of the values; an empty range at their place, if none
    has.
    """
    if isinstance(column, ArrowColumn):
        assert isinstance(value, ArrowColumn)
        return _bisected(column, value, order, start, stop)
    assert isinstance(column, FixedColumn)
    assert isinstance(value, FixedColumn)
    nulls, null = column.nulls(), value.nulls()
    is_null = null is not None and bool(null[0])
    if nulls is not None:
        first = start + _nulls_or_values(nulls[start:stop], nulls_first=order.nulls_first)
        if is_null == order.nulls_first:
            stop = first
        else:
            start = first
        if is_null:
            return start, stop
    elif is_null:
        return (start, start) if order.nulls_first else (stop, stop)
    values, one = column.values[start:stop], value.values[0]
    if order.descending:
        return _reversed(values, one, stop)
    return start + int(values.searchsorted(one)), start + int(values.searchsorted(one, side="right"))


def _reversed(values: np.ndarray[Any, Any], one: Any, stop: int) -> tuple[int, int]:
    ascending = values[::-1]
    return stop - int(ascending.searchsorted(one, side="right")), stop - int(ascending.searchsorted(one))


def _nulls_or_values(nulls: np.ndarray[Any, Any], *, nulls_first: bool) -> int:
    """The number of rows that come first: the nulls, or the values."""
    if nulls_first:
        return len(nulls) - int(nulls[::-1].searchsorted(np.True_))
    return int(nulls.searchsorted(np.True_))


def _bisected(column: ArrowColumn, value: ArrowColumn, order: Order, start: int, stop: int) -> tuple[int, int]:
    array = plain(column.array)
    key: Callable[[Any], Any] = sort_key(array.type, descending=order.descending, nulls_first=order.nulls_first)
    wanted = key(plain(value.array)[0].as_py())

    def at(row: int) -> Any:
        return key(array[row].as_py())

    numbers = range(stop)
    first = bisect_left(numbers, wanted, start, stop, key=at)
    return first, bisect_right(numbers, wanted, first, stop, key=at)

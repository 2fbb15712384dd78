"""Writes the rows of a window to their places as they are read, where the order of the window is known before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...proto.errors import Refused
from ..order.shuffle import Positions
from .row_gathering import RowGathering, Values, is_wide


class RowPlacing:
    """The rows of a window's columns at some positions, of which none repeats. `rows` are the rows of the window. The
    positions are asked for once they are needed.

    Wide rows are written to their places at once. Narrow ones are kept until all are there: they are gathered faster
    from arrays that are in the cache.
    """

    def __init__(self, gathering: RowGathering, rows: int, positions: Callable[[], Positions | slice]) -> None:
        self._gathering = gathering
        self._rows = rows
        self._chosen = positions
        self._places: Positions | None = None
        self._parts: list[list[Values]] = []
        self._arrays: dict[int, npt.NDArray[Any]] = {}
        self._read = 0

    def add(self, columns: Sequence[Sequence[Values]], rows: int) -> None:
        """Add the next rows, so many of each column."""
        first, self._read = self._read, self._read + rows
        if self._read > self._rows:
            raise self._other_rows()
        self._parts = self._parts or [[] for _ in columns]
        for number, parts in enumerate(columns):
            for values in parts:
                if isinstance(values, np.ndarray) and is_wide(values):
                    self._place(number, values, first)
                else:
                    self._parts[number].append(values)

    def columns(self, empty: Callable[[], list[list[Values]]]) -> tuple[Values, ...]:
        """The rows of each column, all of which were added. `empty` makes the columns without rows."""
        if self._read != self._rows:
            raise self._other_rows()
        columns = self._parts or empty()
        narrow = [number for number in range(len(columns)) if number not in self._arrays]
        taken = self._gathering.all_taken([columns[number] for number in narrow], self._positions)
        arrays = {**self._arrays, **dict(zip(narrow, taken, strict=True))}
        return tuple(arrays[number] for number in range(len(columns)))

    @cached_property
    def _positions(self) -> Positions:
        positions = self._chosen()
        return np.arange(self._rows)[positions] if isinstance(positions, slice) else positions

    def _place(self, number: int, values: npt.NDArray[Any], first: int) -> None:
        if self._places is None:
            self._places = np.full(self._rows, -1)
            self._places[self._positions] = np.arange(len(self._positions))
        if number not in self._arrays:
            shape = len(self._positions), *values.shape[1:]
            self._arrays[number] = self._gathering.arrays.empty(shape, values.dtype)
        targets = self._places[first : first + len(values)]
        wanted = np.flatnonzero(targets >= 0)
        if len(wanted) < len(values):
            targets, values = targets[wanted], values[wanted]
        self._arrays[number][targets] = values

    def _other_rows(self) -> Refused:
        return Refused(
            f"the splits of a window were listed with {self._rows:,} rows, and the plan gives another number: a file "
            "has changed since",
            reason="STATE_MISMATCH",
        )

"""Rows with the number of the slice of time that each is in, or with the moments at which slices begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .rows import Rows
from .value_columns import Column, FixedColumn

_FAR: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedRows:
    """Columns of rows, and for None the number of the slice that the time in `column` is in. A slice is `size` units of
    the column long, and slice 0 begins at `origin`; both are at most 2^60.
    """

    column: int
    size: int
    origin: int
    output: tuple[int | None, ...]

    def of(self, rows: Rows) -> Rows | None:
        """The rows. None where a time is null, infinite, or too far from 0 for whole numbers of 64 bits."""
        times = rows.columns[self.column]
        if not isinstance(times, FixedColumn) or times.nulls() is not None or not len(rows):
            return None
        values = times.values
        if values.dtype.kind not in "iu":
            return None
        ends, least, most = np.iinfo(values.dtype), int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
        if (least <= max(int(ends.min) + 1, -_FAR) and ends.min < 0) or most >= min(int(ends.max), _FAR):
            return None
        since = values.astype(np.int64, copy=self.origin != 0)
        if self.origin:
            since -= self.origin
        numbers = FixedColumn(since // self.size)
        columns: list[Column] = [numbers if at is None else rows.columns[at] for at in self.output]
        return Rows(columns, len(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceStart:
    """The moment at which a slice begins, whose number is in `column`: a count of units of an Arrow type that is `bits`
    wide. Slices are `size` units long, and slice 0 begins at `origin`; both are at most 2^60. The type has all moments
    that are at most `farthest` units from 0.
    """

    column: int
    size: int
    origin: int
    farthest: int
    bits: int

    def of(self, rows: Rows) -> FixedColumn | None:
        """The moments. None where a number is null, or a moment too far from 0."""
        numbers = rows.columns[self.column]
        if not isinstance(numbers, FixedColumn) or numbers.nulls() is not None or not len(rows):
            return None
        values = numbers.values
        if values.dtype != np.int64:
            return None
        ends = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
        if any(abs(number * self.size + self.origin) > self.farthest for number in ends):
            return None
        moments = values * np.int64(self.size)
        moments += self.origin
        return FixedColumn(moments.astype(f"int{self.bits}", copy=False))


@dataclass(frozen=True, slots=True)
class SliceStarts:
    """Columns of rows, by their positions, and moments at which slices begin."""

    output: tuple[int | SliceStart, ...]

    def of(self, rows: Rows) -> Rows | None:
        """The rows. None where a moment is null, or too far from 0."""
        columns: list[Column] = []
        for at in self.output:
            column = rows.columns[at] if isinstance(at, int) else at.of(rows)
            if column is None:
                return None
            columns.append(column)
        return Rows(columns, len(rows))

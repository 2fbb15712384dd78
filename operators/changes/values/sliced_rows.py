"""Rows with the number of the slice of time that each is in."""

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

"""OnTime: pass on rows that are on time for windows which are given once, or only those that are late.

A row is late if the watermark at its position in its source has passed a window that could have it. Rows without such
a watermark are late if such a window was final at the end of the epoch before. State: the watermark of that end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from ...core.operator import UNBOUNDED, StateReader, StateWriter
from ..change_operator import ChangeOperator
from ..kept.state_format import load_numbers, save_numbers
from ..values.change import Change, Numbers
from ..values.rows import Rows
from .timed_rows import numbers_of
from .window_closing import IDLE, MOST, NEVER, RowClosing

_VERSION: Final = 1


class OnTime(ChangeOperator):
    """The operator. Column 0 of a row is its mark, the last one the watermark at the row if rows are `marked`; it gives
    the columns `output`. Of a second input, the watermark alone counts.
    """

    watermark_inputs = (1,)

    def __init__(self, schema: pa.Schema, closing: RowClosing, output: range, *, marked: bool, late: bool) -> None:
        self.schema = schema
        self._closing = closing
        self._output = output
        self._marked = marked
        self._late = late
        self._tick = NEVER

    def receive(self, _port: int, change: Change) -> Iterable[Change]:
        rows = change.rows
        numbers = numbers_of(rows)
        marks = numbers_of(rows, len(rows.columns) - 1) if self._marked else None
        if len(rows) and self._none_is_late(numbers, marks):
            return () if self._late else (self._chosen(change),)
        ticks = np.full(len(rows), self._tick, dtype=np.int64)
        if marks is not None:
            np.maximum(ticks, marks, out=ticks)
        late = numbers < self._closing.first_open(ticks)
        passed = np.flatnonzero(late if self._late else ~late)
        some = change if len(passed) == len(change) else change.take(passed)
        return (self._chosen(some),) if len(some) else ()

    def _none_is_late(self, numbers: Numbers, marks: Numbers | None) -> bool:
        """Tests whether the least of the numbers is on time at the latest watermark: then all are."""
        latest = np.full(1, self._tick, dtype=np.int64)
        if marks is not None:
            np.maximum(latest, marks.max(), out=latest)
        return bool(numbers.min() >= self._closing.first_open(latest)[0])

    def _chosen(self, change: Change) -> Change:
        return change.with_rows(Rows([change.rows.columns[at] for at in self._output], len(change)))

    def advance(self, watermark: int | None) -> Iterable[Change]:
        if watermark == UNBOUNDED:
            self._tick = MOST
        elif watermark is not None and watermark != IDLE:
            self._tick = max(self._tick, self._closing.ticks.at(watermark))
        return ()

    def save(self, state: StateWriter) -> None:
        save_numbers(state, "closed", _VERSION, {"tick": self._tick})

    def load(self, state: StateReader) -> None:
        (self._tick,) = load_numbers(state, "closed", _VERSION)

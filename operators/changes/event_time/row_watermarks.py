"""RowWatermarks: give each row of a source the watermark at its position, and the source its watermark at the barrier.

The watermark at a row is the greatest time of the rows up to it, less the delay. It is a function of the source's rows
and their order, so a row is late or not however the stream is cut into epochs. State: the greatest time, the watermark
that the feeder gave, and the number of epochs without rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ...core.operator import UNBOUNDED, StateReader, StateWriter
from ..change_operator import ChangeOperator
from ..kept.state_format import load_numbers, save_numbers
from ..values.change import Change, Numbers, all_one
from ..values.rows import Rows
from ..values.value_columns import FixedColumn, Mask
from .timed_rows import numbers_of
from .window_closing import IDLE, MOST, NEVER, Ticks, behind

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The watermark of a source: `delay` ticks behind the greatest time of its column `column`.

    With `ahead`, a row raises the greatest time by at most so many ticks; the first time of all counts only once
    another row's time is not as far below it. After `idle` epochs without rows the source holds no other
    one back. `parts` of the column's numbers are a tick. The readers of the source need a row until the watermark is
    `horizon` ticks after it; None if for ever.
    """

    column: str
    delay: int
    ahead: int | None
    idle: int | None
    parts: int
    ticks: Ticks
    horizon: int | None = None

    def times(self, rows: Rows, column: int) -> tuple[Numbers, Mask]:
        """The times of rows, in ticks, and which of the rows have one: infinite times and nulls are none."""
        times, numbers = rows.columns[column], numbers_of(rows, column)
        if isinstance(times, FixedColumn) and times.values.dtype == np.uint64:
            numbers = np.minimum(times.values, np.uint64(MOST)).astype(np.int64)
        nulls = times.nulls()
        if nulls is None and len(numbers) and numbers.min() > -MOST and numbers.max() < MOST:
            has_time = np.ones(len(numbers), dtype=np.bool_)
        else:
            has_time = np.abs(numbers) < MOST
            if nulls is not None:
                has_time &= ~nulls
        return numbers if self.parts == 1 else numbers // self.parts, has_time


class RowWatermarks(ChangeOperator):
    """The operator. Its rows have a last column with the tick of the watermark at each row. Rows come to one channel;
    the instances of other channels are not `fed`.
    """

    def __init__(self, schema: pa.Schema, event_time: EventTime, *, fed: bool) -> None:
        self.schema = schema
        self._event_time = event_time
        self._column = schema.get_field_index(event_time.column)
        self._fed = fed
        self._greatest = NEVER
        self._first = NEVER
        """The first time, until it counts."""
        self._said = NEVER
        self._quiet = 0
        self._rows = 0
        self.ahead = 0
        """The rows whose times were too far ahead."""

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        self._rows += len(change)
        marks = self._marks(self._moved(change))
        return (change.with_rows(Rows((*change.rows.columns, FixedColumn(marks)), len(change))),)

    def watermark(self, watermark: int | None) -> int | None:
        if watermark == UNBOUNDED or not self._fed:
            return UNBOUNDED
        event_time = self._event_time
        if watermark is not None and watermark != IDLE:
            self._said = max(self._said, event_time.ticks.at(watermark))
        self._quiet = 0 if self._rows else self._quiet + 1
        self._rows = 0
        if watermark == IDLE or (event_time.idle is not None and self._quiet >= event_time.idle):
            return IDLE
        mark = self._said if self._greatest == NEVER else max(self._said, self._greatest - event_time.delay)
        return None if mark == NEVER else event_time.ticks.watermark(mark)

    def save(self, state: StateWriter) -> None:
        row = {"greatest": self._greatest, "first": self._first, "said": self._said}
        counts = {"quiet": self._quiet, "ahead": self.ahead}
        save_numbers(state, "event-time", _VERSION, row | counts)

    def load(self, state: StateReader) -> None:
        numbers = load_numbers(state, "event-time", _VERSION)
        self._greatest, self._first, self._said, self._quiet, self.ahead = numbers

    def _marks(self, moved: Numbers) -> Numbers:
        """The watermark at each row, by the greatest times, of which the first is the least."""
        delay, said = self._event_time.delay, self._said
        if not len(moved) or int(moved[0]) < NEVER + delay:
            marks = np.maximum(behind(moved, delay), said)
            marks[moved == NEVER] = said
            return marks
        marks = moved - delay
        return marks if marks[0] >= said else np.maximum(marks, said, out=marks)

    def _moved(self, change: Change) -> Numbers:
        """The greatest time at each row. Nulls, infinite times and deletions leave it as it is."""
        numbers, has_time = self._event_time.times(change.rows, self._column)
        if not (all_one(change.weights) and has_time.all()):
            numbers = np.where(has_time & (change.weights > 0), numbers, NEVER)
        ahead = self._event_time.ahead
        if ahead is None:
            ascends = np.count_nonzero(numbers[1:] < numbers[:-1]) == 0
            running: Numbers = numbers.copy() if ascends else np.maximum.accumulate(numbers)
            if len(running) and running[0] < self._greatest:
                np.maximum(running, self._greatest, out=running)
        else:
            start = self._begun(numbers, ahead) if self._greatest == NEVER else 0
            running = np.full(len(numbers), NEVER)
            running[max(start - 1, 0) :] = self._greatest
            if start < len(numbers):
                running[start:] = self._held_back(numbers[start:], ahead)
        if len(running):
            self._greatest = int(running[-1])
        return running

    def _begun(self, numbers: Numbers, ahead: int) -> int:
        """The number of rows up to the one at which the greatest time is first known."""
        for at, time in enumerate(numbers.tolist()):
            if time == NEVER:
                continue
            if self._first == NEVER or time < self._first - ahead:
                self.ahead += self._first != NEVER
                self._first = time
            else:
                self.ahead += time > self._first + ahead
                self._greatest = min(max(time, self._first), self._first + ahead)
                return at + 1
        return len(numbers)

    def _held_back(self, numbers: Numbers, ahead: int) -> Numbers:
        """The greatest time at each row, if none raises it by more than `ahead`."""
        running: Numbers = np.maximum.accumulate(np.maximum(numbers, self._greatest))
        before = np.concatenate([[self._greatest], running[:-1]])
        jumps = behind(running, ahead) > before
        if not jumps.any():
            return running
        start = int(jumps.argmax())
        greatest = int(before[start])
        held = running.copy()
        for at in range(start, len(numbers)):
            if numbers[at] > greatest + ahead:
                self.ahead += 1
                greatest += ahead
            else:
                greatest = max(greatest, int(numbers[at]))
            held[at] = greatest
        return held

"""FinalMatches: the rows of one side of a join that have a match, or that have none, each once.

A row waits until the watermark shows that no match of it, and no deletion, can still come. Confluent. State: the rows
that wait, and those of their matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from ...core.operator import UNBOUNDED, StateReader, StateWriter
from ..change_operator import ChangeOperator, Kept
from ..kept.arrangement import Arrangement
from ..kept.present import sums_at
from ..kept.state_format import load_numbers, save_numbers
from ..values.change import Change
from .final_windows import late_insertion
from .interval_closing import IntervalClosing
from .timed_rows import TimedRows
from .window_closing import IDLE, MOST, NEVER, end_of_passed

_VERSION: Final = 1


class FinalMatches(ChangeOperator):
    """The operator. Input 0 has the rows, input 1 the same columns for each pair that has the row. Column 0 is the
    tick. It gives the columns behind the tick, of the rows that are `matched`, or of the others. The watermark of its
    inputs is that of pairs.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: IntervalClosing,
        *,
        left: bool,
        matched: bool,
        plan_path: str,
    ) -> None:
        self.schema = schema
        self._input_schema = input_schema
        self._closing = closing
        self._left = left
        self._matched = matched
        self._whose = f"{plan_path}: FinalMatches"
        self._rows = TimedRows(input_schema.types)
        self._pairs = TimedRows(input_schema.types)
        self._low = NEVER
        """The least tick of rows that wait."""

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        (self._pairs if port else self._rows).insert(change)
        return ()

    def advance(self, watermark: int | None) -> Iterable[Change]:
        if watermark is None or watermark == IDLE:
            return
        low = MOST if watermark == UNBOUNDED else self._waiting(watermark)
        if low <= self._low:
            return
        self._low = low
        end = end_of_passed(low, watermark)
        rows = self._rows.between(NEVER, end)
        if len(rows):
            yield self._wanted(rows, self._pairs.between(NEVER, end))
        self._rows.drop_below(end)
        self._pairs.drop_below(end)

    def kept(self) -> Iterable[Kept]:
        yield Kept("rows", self._rows, self._input_schema)
        yield Kept("pairs", self._pairs, self._input_schema)

    def save(self, state: StateWriter) -> None:
        save_numbers(state, "closed", _VERSION, {"low": self._low})
        super().save(state)

    def load(self, state: StateReader) -> None:
        (self._low,) = load_numbers(state, "closed", _VERSION)
        super().load(state)
        for rows in (self._rows, self._pairs):
            rows.drop_below(self._low)

    def _waiting(self, watermark: int) -> int:
        """The least tick of rows that still wait, at this watermark of pairs."""
        closing = self._closing
        return closing.needed(closing.ticks.at(watermark) + closing.lag, left=self._left)

    def _wanted(self, rows: Change, pairs: Change) -> Change:
        negative = np.flatnonzero(rows.weights < 0)
        if len(negative):
            own = rows.rows.take(negative[:1])
            raise late_insertion(own, self._input_schema, self._whose)
        every = range(len(self._input_schema))
        matches = Arrangement(self._input_schema.types, every, depth=0)
        matches.insert(pairs)
        matched = sums_at(matches.find(rows.rows, rows=False), (), len(rows)) != 0
        some = rows.take(np.flatnonzero(matched if self._matched else ~matched))
        return some.with_rows(some.rows.select(every[1:]))

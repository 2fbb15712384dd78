"""FinalSlidingWindows: windows of time that overlap, each given once, at a cost for each result that does not grow with
the number of a window's slices.

For each key with a row in the last window there are two running results: that of the slices of the block in which the
window begins, and that of the slices of the next block that have come. A slice is read when it comes, when windows
begin in its block, and when it goes. Blocks begin at multiples of a window's length, so the bits of a result follow
from the window's slices alone, however the stream is cut into epochs. Confluent. State: the slices of open windows, and
the running results, which are no part of a checkpoint: they are computed from the slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ....proto.errors import ExecutionError
from ...slices.state_joins import StateFunction
from ..values.change import Change, ones
from ..values.evaluator import Evaluator
from ..values.rows import Rows
from .final_windows import ClosingWindows, FinalWindows
from .running_states import Leaving, Overlap, Running, States
from .state_numbers import state_numbers
from .timed_rows import numbers_of
from .window_closing import SliceClosing
from .window_segments import Span, WindowSegments

_LARGEST: Final = (1 << 63) - 1


class FinalSlidingWindows(ClosingWindows):
    """The operator, over rows of which a key has one in each slice: the slice's number, `keys` columns, and the states
    that `functions` have made. `evaluate` takes a window's number, the keys and the joined states, and returns the
    windows' rows. Without it these are the rows.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: SliceClosing,
        functions: Sequence[StateFunction],
        evaluate: Evaluator | None,
        *,
        keys: int,
        plan_path: str,
    ) -> None:
        super().__init__(input_schema, schema, closing, plan_path=plan_path)
        self._evaluate = evaluate
        self._keys = range(1, 1 + keys)
        self._key_schema = pa.schema([input_schema.field(at) for at in self._keys])
        of_states = zip(functions, input_schema.types[1 + keys :], strict=True)
        self._forms = [state_numbers(function, type_, plan_path) for function, type_ in of_states]
        self._overlap = Overlap(closing.length, closing.step)
        self._none = self._states_of(Rows.empty(input_schema.types))
        self._running: Running | None = None
        self._looked_at = 0
        """The states that were read beside the rows."""

    @classmethod
    def state_name(cls) -> str:
        """That of the operator which keeps the same slices, and which gave these windows in earlier versions."""
        return FinalWindows.state_name()

    @property
    def touched(self) -> int:
        return super().touched + self._looked_at

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._running is None else self._running.nbytes)

    def _windows(self, first: int | None, last: int) -> Change | None:
        span = self._span(first, last)
        if span is None:
            self._running = None
            return None
        rows = self._rows.between(span.low, self._overlap.end(span.last)).rows
        slices = numbers_of(rows)
        order = np.argsort(slices, kind="stable")
        slices, rows = slices[order], rows.take(order)
        leaving = span.running.leaving.before(span.last * self._overlap.step)
        states = States.concat([span.running.front, leaving.states, span.running.back, self._states_of(rows)])
        self._looked_at += len(states) - len(slices)
        segments = WindowSegments(span, self._forms, states, leaving, slices)
        self._running = segments.running() if span.last == last else None
        windows = segments.results(self._key_schema)
        if self._evaluate is not None:
            windows = Rows.of_batch(self._evaluate(windows.to_batch(self._input_schema)))
        return Change(windows, ones(len(windows)))

    def _span(self, first: int | None, last: int) -> Span | None:
        """The windows that may have a row; None if there are none. Rows may be years away from each other."""
        overlap, running = self._overlap, self._running
        bounds = [*self._rows.bounds, *(() if running is None else running.leaving.bounds)]
        if not bounds:
            return None
        low, high = min(bounds), max(bounds)
        if low - 2 * overlap.length < -_LARGEST or high + overlap.length > _LARGEST:
            raise ExecutionError(
                f"{self._plan_path}: a row is in slice {low if low < 0 else high:,}, and windows of {overlap.length:,} "
                "slices with it begin or end beyond 64 bits: leave out rows with such times",
                reason="OVERFLOW",
            )
        last = min(last, high // overlap.step)
        if running is None:
            first = overlap.first(low) if first is None else max(first, overlap.first(low))
            before = (overlap.block(first) * overlap.length - 1) // overlap.step
            nothing = Leaving(np.empty(0, dtype=np.int64), self._none, np.empty(0, dtype=np.bool_))
            running = Running(before, self._none, self._none, nothing)
        first = running.window + 1 if first is None else first
        return None if last < first else Span(overlap, first, last, running)

    def _states_of(self, rows: Rows) -> States:
        columns = rows.columns[self._keys.stop :]
        keys = rows.select(self._keys)
        states = [form.kept(column) for form, column in zip(self._forms, columns, strict=True)]
        return States(keys.hashed(keys.hashes()), states)

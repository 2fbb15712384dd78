"""FinalSlidingWindows: windows of time that overlap, each given once, at a cost for each result that does not grow with
the number of a window's slices.

For each key with a row in the last window there are two running results: that of the slices of the block in which the
window begins, and that of the later slices that have come. A slice is read when it comes, twice when its block and the
one before it become the next one, and when it goes. Blocks begin at multiples of half a window's length, so the bits of
a result follow from the window's slices alone, however the stream is cut into epochs. Confluent.

State: the slices of open windows; if states are made from other rows, these rows until their slice has ended; and the
running results, which are no part of a checkpoint, because they are computed from the slices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ....proto.errors import ExecutionError
from ...core.operator import StateReader
from ...slices.state_joins import StateFunction
from ..change_operator import Kept
from ..kept.state_format import load_arrangement, load_numbers
from ..values.change import Change, Numbers, ones
from ..values.evaluator import Evaluator
from ..values.rows import Rows
from .final_windows import ClosingWindows, FinalWindows, rows_in_order
from .running_states import Leaving, Leavings, NextBlock, Overlap, Running, States
from .state_numbers import state_numbers
from .timed_rows import TimedRows, numbers_of
from .window_closing import NEVER, SliceClosing
from .window_segments import Span, WindowSegments

_LARGEST: Final = (1 << 63) - 1
_WITH_SLICES: Final = 2
"""The version of a checkpoint that has slices beside rows. The first one has rows alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceStates:
    """The form of states of slices by keys: the columns of `schema` are the slice, the keys, and the states that
    `functions` have made. `sql` makes them from the rows of slices; None where the rows are these already.
    """

    functions: tuple[StateFunction, ...]
    schema: pa.Schema
    sql: str | None


class FinalSlidingWindows(ClosingWindows):
    """The operator, over rows of the schema of `states`, of which a key has one in each slice. Where the input has
    other rows, `make_states` makes these of the rows of slices, in canonical order. `evaluate` takes a window's number,
    the `keys` columns and the joined states, and returns the windows' rows. Without it these are the rows.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: SliceClosing,
        states: SliceStates,
        evaluate: Evaluator | None,
        *,
        keys: int,
        plan_path: str,
        make_states: Evaluator | None = None,
    ) -> None:
        super().__init__(input_schema, schema, closing, plan_path=plan_path)
        self._evaluate = evaluate
        self._make_states = make_states
        self._states_schema = states.schema
        self._keys = range(1, 1 + keys)
        self._key_schema = pa.schema([states.schema.field(at) for at in self._keys])
        of_states = zip(states.functions, states.schema.types[1 + keys :], strict=True)
        self._forms = [state_numbers(function, type_, plan_path) for function, type_ in of_states]
        self._overlap = Overlap(closing.length, closing.step)
        self._slices = self._rows
        if make_states is not None:
            self._version = _WITH_SLICES
            self._slices = TimedRows(states.schema.types)
        none = self._states_of(Rows.empty(states.schema.types))
        self._nothing = Leaving(np.empty(0, dtype=np.int64), none, np.empty(0, dtype=np.bool_))
        self._running: Running | None = None
        self._next: NextBlock | None = None
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
        running = sum(results.nbytes for results in (self._running, self._next) if results is not None)
        return super().nbytes + running

    def kept(self) -> Iterable[Kept]:
        yield from super().kept()
        if self._make_states is not None:
            yield Kept("slices", self._slices, self._states_schema)

    def load(self, state: StateReader) -> None:
        if self._make_states is None or state.read("closed")[0] == self._version:
            super().load(state)
            return
        (self._last,) = load_numbers(state, "closed", ClosingWindows._version)
        load_arrangement(state, "rows", self._rows, self._input_schema)
        if self._last is not None:
            self._drop_below((self._last + 1) * self._closing.step)
            self._end_slices(self._overlap.end(self._last))

    def _bounds(self) -> tuple[int, ...]:
        return tuple(sorted({*self._rows.bounds, *self._slices.bounds}))

    def _drop_below(self, slice_: int) -> None:
        super()._drop_below(slice_)
        self._slices.drop_below(slice_)

    def _end_slices(self, end: int) -> None:
        """Put states in the place of the rows of slices before `end`, to which no further row comes."""
        if self._make_states is None:
            return
        ended = self._rows.between(NEVER, end)
        if len(ended):
            rows = rows_in_order(ended, self._input_schema, f"{self._plan_path}: FinalSlidingWindows")
            self._slices.insert(Change.of_batch(self._make_states(rows.to_batch(self._input_schema))))
        self._rows.drop_below(end)

    def _windows(self, first: int | None, last: int) -> Change | None:
        self._end_slices(self._overlap.end(last))
        span = self._span(first, last)
        if span is None:
            self._running = self._next = None
            return None
        slices, read = self._read(span.low, self._overlap.end(span.last))
        segments = WindowSegments(span, self._forms, read, slices)
        self._looked_at += segments.looked_at
        self._running = segments.running() if span.last == last else None
        self._next = None if self._running is None else self._next_block(last)
        windows = segments.results(self._key_schema)
        if self._evaluate is not None:
            windows = Rows.of_batch(self._evaluate(windows.to_batch(self._states_schema)))
        return Change(windows, ones(len(windows)))

    def _span(self, first: int | None, last: int) -> Span | None:
        """The windows that may have a row; None if there are none. Rows may be years away from each other."""
        overlap, running = self._overlap, self._running
        bounds = [*self._bounds(), *(() if running is None else running.leaving.bounds)]
        if not bounds:
            return None
        low, high = min(bounds), max(bounds)
        if low - 4 * overlap.length < -_LARGEST or high + overlap.length > _LARGEST:
            raise ExecutionError(
                f"{self._plan_path}: a row is in slice {low if low < 0 else high:,}, and windows of {overlap.length:,} "
                "slices with it begin or end beyond 64 bits: leave out rows with such times",
                reason="OVERFLOW",
            )
        last = min(last, high // overlap.step)
        if running is not None:
            first = running.window + 1
            return None if last < first else Span(overlap, first, last, running, self._next_of(last, running))
        first = overlap.first(low) if first is None else max(first, overlap.first(low))
        # A window that ends before the block of the first one, so that nothing is known.
        before = (overlap.block(first) * overlap.block_length - overlap.length) // overlap.step
        none = self._nothing.states
        running = Running(before, none, none, Leavings((self._nothing,)))
        return None if last < first else Span(overlap, first, last, running)

    def _next_of(self, last: int, running: Running) -> NextBlock | None:
        """The next block, whole, if the last window begins in it."""
        next_, overlap = self._next, self._overlap
        if next_ is None or overlap.block(last) != next_.number:
            return None
        return self._extended(next_, next_.number * overlap.block_length, overlap.end(running.window))

    def _next_block(self, last: int) -> NextBlock | None:
        """The block behind the one in which the last window begins, made as far as it has to be. Where windows are so
        far apart that they may leave blocks out, there is none.
        """
        next_, overlap = self._next, self._overlap
        if overlap.step > overlap.block_length:
            return None
        if next_ is None or next_.number != overlap.block(last) + 1:
            next_ = NextBlock.behind(last, overlap, self._nothing)
        begin = next_.due(last, overlap)
        return next_ if begin is None else self._extended(next_, begin, overlap.end(last))

    def _extended(self, next_: NextBlock, begin: int, end: int) -> NextBlock:
        if begin == next_.begin and end == next_.end:
            return next_
        self._looked_at += len(next_.front) + len(next_.back)
        _, behind = self._read(next_.end, end)
        return next_.extended(self._forms, begin, self._read(begin, next_.begin), end, behind)

    def _read(self, low: int, high: int) -> tuple[Numbers, States]:
        """Slices from `low` to before `high`, in their order, and their states."""
        rows = self._slices.between(low, high).rows
        slices = numbers_of(rows)
        order = np.argsort(slices, kind="stable")
        return slices[order], self._states_of(rows.take(order))

    def _states_of(self, rows: Rows) -> States:
        columns = rows.columns[self._keys.stop :]
        keys = rows.select(self._keys)
        states = [form.kept(column) for form, column in zip(self._forms, columns, strict=True)]
        return States(keys.hashed(keys.hashes()), states)

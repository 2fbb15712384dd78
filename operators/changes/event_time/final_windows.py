"""FinalWindows: windows of time, each given once, when the watermark has passed its end.

Rows wait, in the order of their slices, until a window that has them is final; then the window's answer is computed
from all of its rows. Confluent. State: the rows of open windows. They go when their last window is final, so state
follows the windows that are open, and not those that were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ....proto.errors import ExecutionError
from ...core.operator import UNBOUNDED, StateReader, StateWriter
from ..change_operator import ChangeOperator, Kept
from ..kept.matching_entries import MatchingEntries
from ..kept.present import MOST_COPIES, Present, without_deleted
from ..kept.state_format import load_numbers, save_numbers
from ..values.canonical_rows import canonical
from ..values.change import Change, ones
from ..values.evaluator import NUMBER, Evaluator
from ..values.order_codes import canonical_orders
from ..values.rows import Rows
from ..values.value_columns import Index
from .timed_rows import TimedRows
from .window_closing import IDLE, NEVER, SliceClosing, after_closing


class ClosingWindows(ChangeOperator):
    """The base of final windows, over rows whose first column is the number of their slice. It keeps rows as long as a
    window of theirs is open. A subclass gives windows in `_windows`.
    """

    _version = 1
    """The version of the state in a checkpoint."""

    def __init__(self, input_schema: pa.Schema, schema: pa.Schema, closing: SliceClosing, *, plan_path: str) -> None:
        self.schema = schema
        self._input_schema = input_schema
        self._closing = closing
        self._plan_path = plan_path
        self._rows = TimedRows(input_schema.types)
        self._last: int | None = None
        """The number of the last window that is final."""

    @abstractmethod
    def _windows(self, first: int | None, last: int) -> Change | None:
        """The windows that have a row, from `first` to `last`; from the first one of all if that is None."""

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        self._rows.insert(change)
        return ()

    def advance(self, watermark: int | None) -> Iterable[Change]:
        last = self._last_closed(watermark)
        if last is None or (self._last is not None and last <= self._last):
            return
        first, self._last = None if self._last is None else self._last + 1, last
        windows = self._windows(first, last)
        if windows is not None:
            yield windows
        self._drop_below((last + 1) * self._closing.step)

    def watermark(self, watermark: int | None) -> int | None:
        return after_closing(self._closing, watermark)

    def kept(self) -> Iterable[Kept]:
        yield Kept("rows", self._rows, self._input_schema)

    def save(self, state: StateWriter) -> None:
        save_numbers(state, "closed", self._version, {"last": self._last})
        super().save(state)

    def load(self, state: StateReader) -> None:
        (self._last,) = load_numbers(state, "closed", self._version)
        super().load(state)
        if self._last is not None:
            self._drop_below((self._last + 1) * self._closing.step)

    def _drop_below(self, slice_: int) -> None:
        self._rows.drop_below(slice_)

    def _last_closed(self, watermark: int | None) -> int | None:
        if watermark is None or watermark == IDLE:
            return None
        if watermark != UNBOUNDED:
            return self._closing.last_closed(self._closing.ticks.at(watermark))
        slices = self._bounds()
        return slices[-1] // self._closing.step if slices else None

    def _bounds(self) -> tuple[int, ...]:
        """The first and the last slice that are kept, in ascending order; nothing if there are none."""
        return self._rows.bounds


class FinalWindows(ClosingWindows):
    """The operator for windows that share no slice, or that are computed from all of their rows. `evaluate` takes rows,
    then the numbers of the first and the last window that are wanted. It returns the windows' rows. It takes the rows
    `in_order`, or the exact numbers of slices, in any order. Without it, each row is a window, and its slice the
    window's number.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: SliceClosing,
        evaluate: Evaluator | None,
        *,
        in_order: bool,
        plan_path: str,
    ) -> None:
        super().__init__(input_schema, schema, closing, plan_path=plan_path)
        self._evaluate = evaluate
        self._in_order = in_order
        self._read = with_bounds(input_schema)

    def _windows(self, first: int | None, last: int) -> Change | None:
        change = self._rows.between(NEVER, last * self._closing.step + self._closing.length)
        if not len(change):
            return None
        if self._evaluate is None:
            return change
        rows = change.rows
        if self._in_order:
            rows = rows_in_order(change, self._input_schema, f"{self._plan_path}: FinalWindows")
        wanted = (NEVER if first is None else first, last)
        bounds = (pa.array(np.full(len(rows), bound)) for bound in wanted)
        answers = self._evaluate(rows.to_batch(self._read, *bounds))
        return Change(Rows.of_batch(answers), ones(answers.num_rows))


def rows_in_order(change: Change, schema: pa.Schema, whose: str) -> Rows:
    """Each copy of the rows of a consolidated change, in canonical order. A negative weight, or too many copies, are
    errors.
    """
    negative = np.flatnonzero(change.weights < 0)
    if len(negative):
        raise late_insertion(change.rows.take(negative[:1]), schema, whose)
    total = change.weights.sum(dtype=np.float64)
    if total > MOST_COPIES:
        raise ExecutionError(
            f"{whose} must compute about {total:.0f} rows of windows at once, copies counted; at most {MOST_COPIES:,} "
            "are allowed: seal smaller epochs, or give the rows smaller weights",
            reason="TOO_MANY_COPIES",
        )
    ordered = canonical(change)
    if int(total) == len(change):
        return ordered.rows
    copies: Index = np.repeat(np.arange(len(ordered)), ordered.weights)
    return ordered.rows.take(copies)


def rows_on_time(matches: MatchingEntries, schema: pa.Schema, whose: str) -> Present:
    """The rows of some keys, in canonical order under each key. A negative weight is an error."""
    return without_deleted(matches, canonical_orders(len(schema)), lambda row: late_insertion(row, schema, whose))


def late_insertion(row: Rows, schema: pa.Schema, whose: str) -> ExecutionError:
    """The error for a row that is deleted more often than inserted among the rows on time."""
    return ExecutionError(
        f"{whose}: the row {row.described(schema, 0)} has been deleted on time, but its insertion came later in the "
        "stream, and was late: feed a row's deletion behind its insertion",
        reason="NEGATIVE_TOTAL",
    )


def with_bounds(schema: pa.Schema) -> pa.Schema:
    """The schema with the numbers of the first and the last window."""
    return schema.append(NUMBER).append(NUMBER)

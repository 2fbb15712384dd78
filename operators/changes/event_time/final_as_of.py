"""FinalAsOf: each left row once, with the latest right row of its keys that is not later.

A left row waits until the watermark shows that no such right row, and no deletion, can still come. Confluent. State:
the rows that the watermark has not passed, and the latest right row of each key that it has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ...core.operator import UNBOUNDED, StateReader, StateWriter
from ..change_operator import ChangeOperator, Kept
from ..join import JoinKey
from ..kept.arrangement import Arrangement
from ..kept.state_format import load_numbers, save_numbers
from ..values.change import Change, ones
from ..values.consolidate import consolidate
from ..values.evaluator import Evaluator
from ..values.order_codes import canonical_orders, order_of
from ..values.rows import Rows
from .final_windows import late_insertion, rows_in_order, rows_on_time
from .forgetting import Forgetting
from .interval_closing import IntervalClosing
from .timed_rows import TimedRows
from .window_closing import IDLE, MOST, NEVER, after_closing, end_of_passed

_VERSION: Final = 1


class FinalAsOf(ChangeOperator):
    """The operator, over rows whose first column is their tick. `evaluate` joins whole left rows with right rows, among
    which are all that can match; it takes the right rows twice.
    """

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        keys: Sequence[JoinKey],
        schema: pa.Schema,
        closing: IntervalClosing,
        tolerance: int | None,
        evaluate: Evaluator,
        *,
        plan_path: str,
    ) -> None:
        self.schema = schema
        self._schemas = (left, right)
        self._keys = tuple(key.left for key in keys), tuple(key.right for key in keys)
        self._closing = closing
        self._tolerance = tolerance
        self._evaluate = evaluate
        self._whose = f"{plan_path}: FinalAsOf"
        self._open = TimedRows(left.types), TimedRows(right.types)
        self._latest = Arrangement(right.types, self._keys[1], depth=0)
        self._forgetting = Forgetting((self._latest, 0))
        self._low = NEVER
        """The least tick that the watermark has not passed."""

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        self._open[port].insert(change)
        return ()

    def advance(self, watermark: int | None) -> Iterable[Change]:
        if watermark is None or watermark == IDLE:
            return
        closing = self._closing
        low = MOST if watermark == UNBOUNDED else closing.needed(closing.ticks.at(watermark), left=True)
        if low <= self._low:
            return
        self._low = low
        end = end_of_passed(low, watermark)
        left, right = (rows.between(NEVER, end) for rows in self._open)
        negative = np.flatnonzero(right.weights < 0)
        if len(negative):
            raise late_insertion(right.rows.take(negative[:1]), self._schemas[1], self._whose)
        if len(left):
            yield self._answers(left, right)
        self._pass(right)
        for rows in self._open:
            rows.drop_below(end)
        if self._tolerance is not None:
            self._forgetting.below(max(low - self._tolerance, NEVER))

    def watermark(self, watermark: int | None) -> int | None:
        return after_closing(self._closing, watermark)

    def kept(self) -> Iterable[Kept]:
        yield from map(Kept, ("left", "right"), self._open, self._schemas)
        yield Kept("latest", self._latest, self._schemas[1])

    def save(self, state: StateWriter) -> None:
        save_numbers(state, "closed", _VERSION, {"low": self._low})
        super().save(state)

    def load(self, state: StateReader) -> None:
        (self._low,) = load_numbers(state, "closed", _VERSION)
        super().load(state)
        for rows in self._open:
            rows.drop_below(self._low)

    def _answers(self, left: Change, right: Change) -> Change:
        """The left rows with right rows, of those that the watermark passes now and those that it has passed."""
        schema, other = self._schemas
        before = rows_on_time(self._latest.find(_different(left.rows.select(self._keys[0]))), other, self._whose)
        earlier = Change(before.rows, before.weights)
        rows = rows_in_order(left, schema, self._whose)
        others = rows_in_order(consolidate(Change.concat([earlier, right])), other, self._whose)
        batch = others.to_batch(other)
        answers = self._evaluate(rows.to_batch(schema), batch, batch)
        return Change(Rows.of_batch(answers), ones(answers.num_rows))

    def _pass(self, right: Change) -> None:
        """Keep the latest of these right rows of each key, in place of the one before."""
        if not len(right):
            return
        of_keys = [order for order in canonical_orders(len(self._schemas[1])) if order.column in self._keys[1]]
        others = [order for order in canonical_orders(len(self._schemas[1])) if order.column not in self._keys[1]]
        rows = right.rows.take(order_of(right.rows, [*of_keys, *others]))
        keys, pairs = rows.select(self._keys[1]), np.arange(len(rows) - 1)
        last = np.flatnonzero(np.append(~keys.same(pairs, keys, pairs + 1), True))
        latest = rows.take(last)
        replaced = rows_on_time(self._latest.find(keys.take(last)), self._schemas[1], self._whose)
        self._latest.insert(Change(replaced.rows, -replaced.weights))
        self._latest.insert(Change(latest, ones(len(latest))))


def _different(keys: Rows) -> Rows:
    """The keys, each once."""
    once = consolidate(Change(keys, ones(len(keys))))
    return once.rows

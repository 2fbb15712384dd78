"""FinalSessions: sessions of rows with equal keys, each given once, when the watermark shows that it has ended.

Rows wait by their keys; their ticks and keys also lie in the order of the ticks, until no further row can come to a
tick. Then the tick is read once: the sessions of its key go on to it, or have ended. The last such tick of each key
with an open session is kept, by key and in the order of the ticks. So the end of a session costs the same, however long
the gap is. Confluent. State: the rows of open sessions, and the last tick of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from ...core.operator import UNBOUNDED, StateReader
from ..change_operator import Kept
from ..kept.arrangement import Arrangement
from ..kept.state_format import load_arrangement, load_numbers
from ..values.change import Change, ones
from ..values.consolidate import consolidate
from ..values.evaluator import Evaluator
from ..values.order_codes import canonical_orders, order_of
from ..values.rows import Rows
from ..values.value_columns import Index
from .final_windows import rows_in_order, rows_on_time
from .timed_rows import TimedRows, numbers_of
from .waiting_rows import WaitingRows
from .window_closing import IDLE, MOST, NEVER, SessionClosing, behind

_WITH_OPEN: Final = 2
"""The version of a checkpoint that has the last ticks of open sessions. The first one has all ticks of the last gap."""


class FinalSessions(WaitingRows[SessionClosing]):
    """The operator, over rows whose first column is their tick, and whose next `keys` columns are the keys. `evaluate`
    takes the rows of whole sessions, and returns a row for each session.
    """

    _version = _WITH_OPEN

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: SessionClosing,
        evaluate: Evaluator,
        *,
        keys: int,
        plan_path: str,
    ) -> None:
        super().__init__(input_schema, schema, closing, evaluate, keys=keys, plan_path=plan_path)
        types = self._ticks_schema.types
        self._open = Arrangement(types, self._keys, depth=0)
        """The last tick of each open session to which no row before this tick can come."""
        self._ends = TimedRows(types)
        """The same ticks, in their order."""

    @property
    def touched(self) -> int:
        return super().touched + self._ends.touched

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._ends.nbytes

    def kept(self) -> Iterable[Kept]:
        yield from super().kept()
        yield Kept("open", self._open, self._ticks_schema)

    def load(self, state: StateReader) -> None:
        if state.read("closed")[0] != self._version:
            self._load_without_open(state)
            return
        super().load(state)
        self._ends.insert(self._open.contents())
        if self._last > NEVER:
            self._ticks.drop_below(self._last + self._closing.gap)

    def _load_without_open(self, state: StateReader) -> None:
        """Load a checkpoint of the first version. All ticks of open sessions that can end in it are read again."""
        (self._last,) = load_numbers(state, "closed", WaitingRows._version)
        for kept in super().kept():
            load_arrangement(state, *kept)
        self._ticks.drop_below(self._last + 1)

    def advance(self, watermark: int | None) -> Iterable[Change]:
        if watermark is None or watermark == IDLE:
            return
        closing = self._closing
        last = MOST if watermark == UNBOUNDED else closing.last_closed(closing.ticks.at(watermark))
        if last <= self._last:
            return
        self._last, end = last, last + closing.gap
        keys, ends = self._ended(self._ticks.between(NEVER, end).rows, last)
        self._ticks.drop_below(end)
        if len(keys):
            yield self._answers(keys, ends)

    def _ended(self, come: Rows, last: int) -> tuple[Rows, Index]:
        """The keys with sessions that have ended, and the tick of the last row of each key's last such session. The
        ticks that have `come` have all rows that they will have.
        """
        before = self._open_before(come, last)
        rows = Rows.concat([before, come])
        of_keys = [order for order in canonical_orders(1 + len(self._keys)) if order.column in self._keys]
        rows = rows.take(order_of(rows, of_keys, then=[numbers_of(rows)]))
        ticks, keys = numbers_of(rows), rows.select(self._keys)
        if not len(rows):
            return keys, ticks
        pairs = np.arange(len(rows) - 1)
        same = np.append(keys.same(pairs, keys, pairs + 1), False)
        goes_on = same & (np.append(behind(ticks[1:], self._closing.gap), NEVER) < ticks)
        ended = np.flatnonzero((ticks <= last) & ~goes_on)
        self._keep_open(before, rows.take(np.flatnonzero((ticks > last) & ~same)), last)
        number = np.cumsum(np.append(0, ~same[:-1]))[ended]
        of_key = ended[np.append(number[1:] != number[:-1], True)] if len(ended) else ended
        return keys.take(of_key), ticks[of_key]

    def _open_before(self, come: Rows, last: int) -> Rows:
        """The last ticks of the sessions that may end, or go on to a tick that has come."""
        keys = consolidate(Change(come.select(self._keys), ones(len(come)))).rows
        open_ = self._open.find(keys)
        due = self._ends.between(NEVER, last + 1)
        return consolidate(Change.concat([Change(open_.rows, open_.weights), due])).rows

    def _keep_open(self, before: Rows, now: Rows, last: int) -> None:
        """Keep the last ticks of sessions that are open `now`, in place of those `before`."""
        change = Change.concat([Change(before, -ones(len(before))), Change(now, ones(len(now)))])
        self._open.insert(change)
        self._ends.insert(change)
        self._ends.drop_below(last + 1)

    def _answers(self, keys: Rows, ends: Index) -> Change:
        now = rows_on_time(self._rows.find(keys), self._input_schema, self._whose)
        of_ended = np.flatnonzero(numbers_of(now.rows) <= ends[now.asked])
        sessions = Change(now.rows.take(of_ended), now.weights[of_ended], consolidated=True)
        self._rows.insert(sessions.negated())
        rows = rows_in_order(sessions, self._input_schema, self._whose)
        answers = self._evaluate(rows.to_batch(self._input_schema))
        return Change(Rows.of_batch(answers), ones(answers.num_rows))

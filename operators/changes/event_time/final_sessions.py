"""FinalSessions: sessions of rows with equal keys, each given once, when the watermark shows that it has ended.

Rows wait by their keys; their ticks and keys also lie in the order of the ticks. A session can end only behind a row
that the end of sessions has passed since the last watermark, so no other key is looked at. Confluent. State: the rows
of open sessions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...core.operator import UNBOUNDED
from ..values.change import Change, ones
from ..values.order_codes import canonical_orders, order_of
from ..values.rows import Rows
from ..values.value_columns import Index
from .final_windows import rows_in_order, rows_on_time
from .timed_rows import numbers_of
from .waiting_rows import WaitingRows
from .window_closing import IDLE, MOST, NEVER, SessionClosing, behind


class FinalSessions(WaitingRows[SessionClosing]):
    """The operator, over rows whose first column is their tick, and whose next `keys` columns are the keys. `evaluate`
    takes the rows of whole sessions, and returns a row for each session.
    """

    def advance(self, watermark: int | None) -> Iterable[Change]:
        if watermark is None or watermark == IDLE:
            return
        closing = self._closing
        last = MOST if watermark == UNBOUNDED else closing.last_closed(closing.ticks.at(watermark))
        if last <= self._last:
            return
        near = self._ticks.between(self._last + 1, last + closing.gap)
        self._last = last
        keys, ends = self._ended(near.rows, last)
        if len(keys):
            yield self._answers(keys, ends)
        self._ticks.drop_below(last + 1)

    def _ended(self, near: Rows, last: int) -> tuple[Rows, Index]:
        """The keys with sessions that have ended, and the tick of the last row of each key's last such session."""
        of_keys = [order for order in canonical_orders(1 + len(self._keys)) if order.column in self._keys]
        rows = near.take(order_of(near, of_keys, then=[numbers_of(near)]))
        ticks, keys = numbers_of(rows), rows.select(self._keys)
        if not len(rows):
            return keys, ticks
        pairs = np.arange(len(rows) - 1)
        same = np.append(keys.same(pairs, keys, pairs + 1), False)
        goes_on = same & (np.append(behind(ticks[1:], self._closing.gap), NEVER) < ticks)
        ended = np.flatnonzero((ticks <= last) & ~goes_on)
        number = np.cumsum(np.append(0, ~same[:-1]))[ended]
        of_key = ended[np.append(number[1:] != number[:-1], True)] if len(ended) else ended
        return keys.take(of_key), ticks[of_key]

    def _answers(self, keys: Rows, ends: Index) -> Change:
        now = rows_on_time(self._rows.find(keys), self._input_schema, self._whose)
        of_ended = np.flatnonzero(numbers_of(now.rows) <= ends[now.asked])
        sessions = Change(now.rows.take(of_ended), now.weights[of_ended], consolidated=True)
        self._rows.insert(sessions.negated())
        rows = rows_in_order(sessions, self._input_schema, self._whose)
        answers = self._evaluate(rows.to_batch(self._input_schema))
        return Change(Rows.of_batch(answers), ones(answers.num_rows))

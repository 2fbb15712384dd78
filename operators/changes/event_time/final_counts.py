"""FinalCounts: windows of a number of rows of equal keys, each given once, when all of its rows have come.

Rows wait by their keys; their ticks and keys also lie in the order of the ticks. A window is final when the watermark
shows that no row before its last one can still come, and the windows of a key that no further row comes to are final at
the end of the stream. Confluent. State: for each key, the rows that the watermark has not passed, and those of the
window that is not full, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...core.operator import UNBOUNDED
from ..kept.present import leading
from ..values.change import Change, Numbers, ones
from ..values.consolidate import consolidate
from ..values.evaluator import Evaluator
from ..values.rows import Rows
from ..values.value_columns import Index
from .final_windows import rows_on_time, with_bounds
from .timed_rows import numbers_of
from .waiting_rows import WaitingRows
from .window_closing import IDLE, MOST, CountClosing


@dataclass(frozen=True, slots=True)
class _Parts:
    """For each key, by the numbers of its rows: the rows of wanted windows, from `begin` up to `end`; the number of
    these windows; and the number of rows that have `passed`.
    """

    begin: Numbers
    end: Numbers
    wanted: Numbers
    passed: Numbers


class FinalCounts(WaitingRows[CountClosing]):
    """The operator, over rows whose first column is their tick, and whose next `keys` columns are the keys. `evaluate`
    takes rows, then a row's number within its key from the key's first wanted window on, and the number of the key's
    windows that are wanted.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: CountClosing,
        evaluate: Evaluator,
        *,
        keys: int,
        plan_path: str,
    ) -> None:
        super().__init__(input_schema, schema, closing, evaluate, keys=keys, plan_path=plan_path)
        self._read = with_bounds(input_schema)

    def advance(self, watermark: int | None) -> Iterable[Change]:
        if watermark is None or watermark == IDLE:
            return
        ended = watermark == UNBOUNDED
        last = MOST if ended else self._closing.last_closed(self._closing.ticks.at(watermark))
        if last <= self._last:
            return
        # At the end every key that has rows has windows. Their rows may be older than all ticks that are kept.
        near = self._rows.contents() if ended else self._ticks.between(self._last + 1, last + 1)
        keys = consolidate(Change(near.rows.select(self._keys), ones(len(near)))).rows
        if len(keys):
            yield from self._answers(keys, last, ended=ended)
        self._last = last
        self._ticks.drop_below(last + 1)

    def _answers(self, keys: Rows, last: int, *, ended: bool) -> Iterable[Change]:
        """The windows of these keys that have ended since the last watermark. Rows that no window needs any more go."""
        now = rows_on_time(self._rows.find(keys), self._input_schema, self._whose)
        copies = now.copies(self._whose)
        copies = copies[numbers_of(now.rows)[copies] <= last]
        asked, rows = now.asked[copies], now.rows.take(copies)
        if not len(rows):
            return
        starts = leading(asked)
        position = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        parts = self._parts(asked, numbers_of(rows), len(keys), ended=ended)
        gone = np.flatnonzero(position < parts.passed[asked])
        self._rows.insert(Change(rows.take(gone), -ones(len(gone))))
        since = position - parts.begin[asked]
        used = np.flatnonzero((since >= 0) & (position < parts.end[asked]))
        if len(used):
            wanted = parts.wanted[asked]
            more = (pa.array(numbers[used]) for numbers in (since, wanted))
            answers = self._evaluate(rows.take(used).to_batch(self._read, *more))
            yield Change(Rows.of_batch(answers), ones(answers.num_rows))

    def _parts(self, asked: Index, ticks: Numbers, keys: int, *, ended: bool) -> _Parts:
        closing = self._closing
        count = np.bincount(asked, minlength=keys)
        known = closing.complete(np.bincount(asked[ticks <= self._last], minlength=keys))
        if ended:
            return _Parts(known * closing.slide, count, closing.begun(count) - known, count)
        complete = closing.complete(count)
        end = np.where(complete > known, (complete - 1) * closing.slide + closing.size, 0)
        return _Parts(known * closing.slide, end, complete - known, closing.passed(count))

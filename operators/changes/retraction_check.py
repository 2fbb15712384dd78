"""RetractionCheck: pass a source's rows on, and refuse an epoch that ends with the deletion of a row that did not
exist, or with a deletion on time of a row that was inserted behind it and late.

Confluent. State: for the hash of each row the number of its copies. Two rows of one hash could hide such a deletion,
which 64 bits make too rare to matter. No other result depends on the check. Rows that are late for all readers of the
source are forgotten, and not checked. Copies of rows that will be forgotten are counted when a deletion asks for them:
without deletions most are forgotten before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from ...proto.arrow.shown_values import shown_names
from ...proto.errors import ExecutionError
from ..core.operator import UNBOUNDED, StateReader, StateWriter
from .change_operator import ChangeOperator, Kept
from .event_time.final_windows import late_insertion
from .event_time.row_watermarks import EventTime
from .event_time.timed_rows import numbers_of
from .event_time.window_closing import IDLE, NEVER
from .kept.arrangement import Arrangement
from .kept.present import sums_at
from .kept.state_format import load_numbers, save_numbers
from .values.change import Change, Numbers, all_one, has_large_weights, take_weights
from .values.consolidate import Entries
from .values.rows import Rows
from .values.value_columns import FixedColumn, Mask

_UNCOUNTED: Final = 1 << 18
"""The most rows that wait to be counted: a deletion counts them, which must not take long."""
_WAITING: Final = 24
"""The bytes of each of so many rows that wait: those of a hash, a tick and a weight."""
_NARROW: Final = 32
"""The most bytes of a row that waits as it is: to copy it takes less time than its hash."""
_BACK: Final = 8
"""A run is later than another one if at most one in so many of its ticks is not after the middle of the other's."""
_NAMED: Final = 3
"""The most splits that an error names."""

_HASHES: Final = pa.schema([pa.field("hash", pa.int64())])
_TIMED_HASHES: Final = _HASHES.append(pa.field("tick", pa.int64()))

_NONE: Final[Numbers] = np.empty(0, dtype=np.int64)


class NotThere(ExecutionError):
    """A row of `source` has fewer than zero copies. The error travels as an `ExecutionError`."""

    def __init__(self, source: str, row: Rows, total: int, described: str, by: str = "") -> None:
        super().__init__(
            f"source {source!r}: the row {described} has been deleted more often than inserted{by}: at the end of "
            f"the epoch it has {total} copies; delete only rows that exist",
            reason="NEGATIVE_TOTAL",
        )
        self.source = source
        self._row = row
        self._arguments = (source, row, total, described)

    def is_deleted_in(self, change: Change) -> bool:
        """True where a change of the source deletes the row."""
        rows = change.rows.take(np.flatnonzero(change.weights < 0))
        return bool(rows.same(np.arange(len(rows)), self._row, np.zeros(len(rows), dtype=np.int64)).any())

    def deleted_by(self, splits: Sequence[str]) -> NotThere:
        """The error with the splits that delete the row."""
        more = "" if len(splits) <= _NAMED else f" and {len(splits) - _NAMED} more"
        return NotThere(*self._arguments, by=f" (deleted by {', '.join(splits[:_NAMED])}{more})")


@dataclass(frozen=True, slots=True)
class _Deleted:
    """Rows that a change deletes, their hashes, and the watermarks at the deletions if rows have them."""

    rows: Rows
    hashes: Rows
    marks: Numbers | None


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Rows as they came, or their hashes alone."""

    rows: Rows
    hashed: bool
    times: Numbers
    weights: Numbers
    last: int | None
    """The greatest tick."""

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.times.nbytes + self.weights.nbytes

    def copies(self) -> Change:
        """The hashes, ticks and weights."""
        hashes = self.rows if self.hashed else _hashes(self.rows)
        return Change(hashes.beside(Rows([FixedColumn(self.times)], len(self.times))), self.weights)


class _Uncounted:
    """Changes of rows, as they came. They are forgotten part by part."""

    def __init__(self) -> None:
        self.rows = self.nbytes = 0
        self._parts: deque[_Part] = deque()

    def add(self, rows: Rows, times: Numbers, weights: Numbers, *, hashed: bool) -> None:
        times = times if times.base is None else times.copy()  # whoever feeds them may use theirs again
        part = _Part(rows, hashed, times, weights, int(times.max()) if len(times) else None)
        self._parts.append(part)
        self.rows += len(rows)
        self.nbytes += part.nbytes

    def forget_below(self, low: int) -> None:
        parts = [part for part in self._parts if part.last is None or part.last >= low]
        if len(parts) < len(self._parts):
            self._parts = deque(parts)
            self.rows = sum(len(part.rows) for part in parts)
            self.nbytes = sum(part.nbytes for part in parts)

    def take(self) -> Change | None:
        """All hashes as one change; None where there are none."""
        parts, self._parts, self.rows, self.nbytes = self._parts, deque[_Part](), 0, 0
        return Change.joined([part.copies() for part in parts]) if parts else None

    def take_first(self) -> Change:
        """The hashes of the oldest part."""
        part = self._parts.popleft()
        self.rows -= len(part.rows)
        self.nbytes -= part.nbytes
        return part.copies()


class _TimedCounts(Arrangement):
    """The copies of rows, by their hashes and ticks. To forget early ticks costs nothing for the rows that are left.

    Runs of insertions in the order of their ticks are moved a few times while they are short, and then stay as they
    are, because they have hardly any row in common. Others are merged: equal rows and deletions leave fewer of them.
    """

    def __init__(self) -> None:
        super().__init__(_TIMED_HASHES.types, (0,), depth=0, packs=False)
        self._ticks: WeakKeyDictionary[Entries, tuple[int, int]] = WeakKeyDictionary()
        """The tick in the middle of a run's ticks, and the last one."""

    def forget_below(self, low: int) -> None:
        """Let runs go whose ticks are all less than `low`, and such rows of runs where they are most."""
        left = []
        for run in self._runs:
            middle, last = self._ticks_of(run)
            if last >= low:
                left.append(run if middle >= low else run.take(np.flatnonzero(numbers_of(run.rows, 1) >= low)))
        if len(left) < len(self._runs) or any(new is not old for new, old in zip(left, self._runs, strict=True)):
            self._runs, self._runs_bytes = left, None
            self._merge_remains()

    def _merge_remains(self) -> None:
        """Merge runs of which little is left with those behind them: a few rows may be far ahead of all others."""
        if all(map(self.is_long, self._runs[:-1])):
            return
        runs, self._runs = self._runs, []
        for run in runs:
            if self._runs and self._merges(self._runs[-1], run):
                self._insert_run(run)
            else:
                self._runs.append(run)

    def _ticks_of(self, run: Entries) -> tuple[int, int]:
        if run not in self._ticks:
            ticks = numbers_of(run.rows, 1)
            self._ticks[run] = int(np.partition(ticks, len(ticks) // 2)[len(ticks) // 2]), int(ticks.max())
        return self._ticks[run]

    def _merges(self, older: Entries, newer: Entries) -> bool:
        return super()._merges(older, newer) and not (self.is_long(older) and self._is_later(newer, older))

    def _is_later(self, newer: Entries, older: Entries) -> bool:
        if not (_inserts(older) and _inserts(newer)):
            return False
        middle, _ = self._ticks_of(older)
        return int(np.count_nonzero(numbers_of(newer.rows, 1) <= middle)) * _BACK <= len(newer)


def _inserts(run: Entries) -> bool:
    """Tests whether the run has rows, and deletes none."""
    return len(run) > 0 and int(run.weights.min()) > 0


def _hashes(rows: Rows) -> Rows:
    return Rows([FixedColumn(rows.hashes().view(np.int64))], len(rows))


def _copied(rows: Rows) -> Rows | None:
    """The rows in memory of their own: whoever feeds them may use theirs again. None where they are not narrow."""
    columns = [column for column in rows.columns if isinstance(column, FixedColumn)]
    if len(columns) < len(rows.columns) or rows.nbytes > _NARROW * len(rows):
        return None
    copies = (
        FixedColumn(column.values.copy(), None if (nulls := column.nulls()) is None else nulls.copy())
        for column in columns
    )
    return Rows(tuple(copies), len(rows))


@dataclass(frozen=True, slots=True)
class _Behind:
    """Insertions and deletions of rows behind their watermark, by the hashes of the rows."""

    hashes: Numbers
    weights: Numbers
    marks: Numbers

    @classmethod
    def all_of(cls, parts: Sequence[_Behind]) -> _Behind:
        columns = ((part.hashes, part.weights, part.marks) for part in parts)
        return cls(*map(np.concatenate, zip((_NONE,) * 3, *columns, strict=True)))

    def copies_after(self, hashes: Numbers, marks: Numbers) -> Numbers:
        """The copies that each of these rows got, or lost, when the watermark was later than this."""
        rows = np.concatenate([self.hashes, hashes])
        asked = np.arange(len(rows)) >= len(self.hashes)
        order = np.lexsort((asked, np.concatenate([self.marks, marks]), rows))
        weights = np.concatenate([self.weights, np.zeros(len(hashes), dtype=np.int64)])
        running, sorted_rows = np.cumsum(weights[order]), rows[order]
        last = np.searchsorted(sorted_rows, sorted_rows, side="right") - 1
        copies = np.empty(len(rows), dtype=np.int64)
        copies[order] = running[last] - running
        return copies[len(self.hashes) :]


class RetractionCheck(ChangeOperator):
    """The operator for the rows of `source`. With an `event_time`, the last column of a row is the watermark at it, and
    no part of it. The operator stands outside of all loops.
    """

    def __init__(self, schema: pa.Schema, source: str, event_time: EventTime | None = None) -> None:
        self.schema = schema
        self._rows = schema if event_time is None else pa.schema(list(schema)[:-1])
        self._source = source
        self._event_time = event_time
        self._horizon = None if event_time is None else event_time.horizon
        self._kept = _HASHES if self._horizon is None else _TIMED_HASHES
        self._timed = None if self._horizon is None else _TimedCounts()
        self._counts = Arrangement(_HASHES.types, (0,), depth=0) if self._timed is None else self._timed
        self._uncounted = _Uncounted()
        self._low = NEVER
        """Earlier ticks are forgotten."""
        self._deleted: list[_Deleted] = []
        self._late: list[_Behind] = []
        """Changes that may be late, behind a deletion of their epoch."""

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        if not len(change):
            return ()
        rows, weights = change.rows, change.weights
        marks = times = _NONE
        has_time: Mask = np.empty(0, dtype=np.bool_)
        if self._event_time is not None:
            rows = rows.select(range(len(self._rows)))
            marks = numbers_of(change.rows, len(self._rows))
            times, has_time = self._event_time.times(rows, self._rows.get_field_index(self._event_time.column))
            if self._horizon is not None and not (len(rows) and has_time.all() and times.min() >= self._low):
                checked = np.flatnonzero(has_time & (times >= self._low))
                if len(checked) < len(rows):
                    rows, weights = rows.take(checked), take_weights(weights, checked)
                    marks, times, has_time = marks.take(checked), times.take(checked), has_time.take(checked)
        fewer = _NONE if all_one(weights) else (weights < 0).nonzero()[0]
        waiting = None if self._horizon is None or len(fewer) or self._deleted else _copied(rows)
        if waiting is not None:
            self._wait(waiting, times, weights, hashed=False)
            return (change,)
        hashes = _hashes(rows)
        if self._horizon is None:
            self._counts.insert(Change(hashes, weights))
        else:
            self._wait(hashes, times, weights, hashed=True)
        if len(fewer):
            self._deleted.append(_Deleted(rows.take(fewer), hashes.take(fewer), marks[fewer] if len(marks) else None))
        if self._deleted and len(marks):
            late = np.flatnonzero(has_time & (times < marks))
            self._late.append(_Behind(numbers_of(hashes).take(late), weights.take(late), marks.take(late)))
        return (change,)

    def advance(self, watermark: int | None) -> Iterable[Change]:
        """Forget rows that no reader needs any more."""
        if watermark is None or watermark in (IDLE, UNBOUNDED):
            return ()
        if self._event_time is not None and self._horizon is not None and self._timed is not None:
            self._low = max(self._low, self._event_time.ticks.at(watermark) - self._horizon + 1)
            self._uncounted.forget_below(self._low)
            self._timed.forget_below(self._low)
        return ()

    def _wait(self, rows: Rows, times: Numbers, weights: Numbers, *, hashed: bool) -> None:
        waiting = self._uncounted
        waiting.add(rows, times, weights, hashed=hashed)
        if not all_one(weights) and has_large_weights(Change(rows, weights)):
            self._count()  # copies beyond 64 bits are an error of this epoch
        while waiting.rows > _UNCOUNTED or waiting.nbytes > _UNCOUNTED * _WAITING:
            self._counts.insert(waiting.take_first())

    def _count(self) -> None:
        change = self._uncounted.take()
        if change is not None:
            self._counts.insert(change)

    def settle(self) -> None:
        deleted, self._deleted = self._deleted, []
        behind, self._late = self._late, []
        if not deleted:
            return
        late = _Behind.all_of(behind) if behind else None
        self._count()
        for part in deleted:
            rows = part.rows
            totals = sums_at(self._counts.find(part.hashes), (), len(rows))
            wrong = (totals < 0).nonzero()[0]
            if len(wrong):
                raise self._not_there(rows.take(wrong[:1]), int(totals[wrong[0]]))
            if part.marks is not None and late is not None and len(late.hashes):
                wrong = np.flatnonzero(totals < late.copies_after(numbers_of(part.hashes), part.marks))
                if len(wrong):
                    whose = f"source {self._source!r}"
                    raise late_insertion(rows.take(wrong[:1]), self._rows, whose)

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes + self._uncounted.nbytes + sum([part.rows.nbytes for part in self._deleted])

    def kept(self) -> Iterable[Kept]:
        yield Kept("counts", self._counts, self._kept)

    def save(self, state: StateWriter) -> None:
        self._count()
        super().save(state)
        if self._horizon is not None:
            save_numbers(state, "forgotten", 1, {"low": self._low})

    def load(self, state: StateReader) -> None:
        super().load(state)
        if self._horizon is not None:
            (self._low,) = load_numbers(state, "forgotten", 1)

    def _not_there(self, row: Rows, total: int) -> NotThere:
        arrays = row.to_arrays(self._rows.types)
        named = {name: array[0] for name, array in zip(self._rows.names, arrays, strict=True)}
        return NotThere(self._source, row, total, shown_names(named))

"""Postponed: rows on which a statement failed, set aside until the end of the epoch shows whether they still exist.

While an epoch goes on, rows meet that never exist together: a row is replaced on each side of a join, or a row is
deleted again. An expression's error counts only for rows that exist at the end of the epoch, or in a loop at the end of
a round. So rows that fail wait until their time is decided. Rows that have cancelled out by then are gone. The other
rows are evaluated once more, and a row that fails now is an error that names the row.

State: nothing that outlives an epoch. An epoch that ends well ends with no row that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import ExecutionError
from ..core.sizes import BATCH_BYTES, rows_within
from .agenda import Agenda
from .values.canonical_rows import canonical
from .values.change import Change, Rounds, by_rounds
from .values.consolidate import consolidate
from .values.evaluator import RowsFailed, first_failing

_ROWS: Final = 65_536
"""The rows that are evaluated at a time, unless they are wide."""
_TOGETHER: Final = 2_048
"""The most rows that wait together, if one of them fails."""


class Postponed:
    """The postponed rows of an operator. `evaluate` computes the results of rows of `schema`, row by row, and raises
    `RowsFailed` if one of them fails.
    """

    def __init__(self, schema: pa.Schema, evaluate: Callable[[Change], Change]) -> None:
        self._schema = schema
        self._evaluate = evaluate
        self._agenda: Agenda[Change] = Agenda()

    def evaluated(self, change: Change) -> Iterator[Change]:
        """The results of the rows. Rows that fail wait, with some of their neighbours."""
        waiting = list(_parts(change, _at_once(change)))[::-1]
        while waiting:
            part = waiting.pop()
            try:
                answer = self._evaluate(part)
            except RowsFailed:
                if len(part) > _TOGETHER:
                    waiting += list(_parts(part, (len(part) + 1) // 2))[::-1]
                else:
                    self._put(part)
                continue
            if len(answer):
                yield answer

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        """The results of the rows that waited for this time and exist."""
        parts = list(self._agenda.take(rounds))
        if not parts:
            return
        whole = Change.scattered(parts)
        there = consolidate(Change(whole.rows, whole.weights))
        for part in _parts(there, _at_once(there)):
            try:
                answer = self._evaluate(part)
            except RowsFailed as error:
                raise self._named(part, error) from error
            if len(answer):
                yield answer.at(rounds)

    @property
    def nbytes(self) -> int:
        return self._agenda.nbytes(lambda change: change.nbytes)

    def _put(self, change: Change) -> None:
        for rounds, which in by_rounds(change.rounds):
            self._agenda.add(rounds, change if which is None else change.take(which))

    def _named(self, rows: Change, error: RowsFailed) -> ExecutionError:
        """The error of the first of these rows, in canonical order, that fails."""
        rows = canonical(rows)
        at, error = first_failing(len(rows), lambda start, end: self._evaluate(rows.take(np.arange(start, end))), error)
        sentence = f"{error.message}, in the row {rows.rows.described(self._schema, at)}"
        return ExecutionError(sentence, reason=error.reason)


def _at_once(change: Change) -> int:
    """The number of rows to evaluate at a time: the results of few rows may be large."""
    return rows_within(BATCH_BYTES, change.nbytes // max(len(change), 1), _ROWS)


def _parts(change: Change, rows: int) -> Iterator[Change]:
    if 0 < len(change) <= rows:
        yield change
        return
    for start in range(0, len(change), rows):
        yield change.take(np.arange(start, min(start + rows, len(change))))

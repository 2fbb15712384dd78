"""Rows in the order of a column of whole numbers, of which the early ones are taken away for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from ...arrays.hashing import Hashes
from ..kept.arrangement import Arrangement
from ..values.change import Change, ManyRounds, Numbers
from ..values.consolidate import Entries, consolidate, entries
from ..values.rows import Rows
from ..values.value_columns import FixedColumn
from .window_closing import MOST

_SIGN: Final = np.uint64(1 << 63)
_LEAST: Final = -(1 << 63)
_BACK: Final = 8
"""A run is later than another one if at most one in so many of its entries are not."""


class TimedRows(Arrangement):
    """Rows of `types`, whose first column is a number without nulls. Its runs lie in the order of this number.

    Taking rows away costs nothing for rows that are left: a run is cut when most of it is gone. Rows that come in the
    order of their numbers are moved a few times while their run is short, and then stay where they are.
    """

    def __init__(self, types: Sequence[pa.DataType], width: int = 1) -> None:
        super().__init__(types, (0,), depth=0, width=width, packs=False)
        self._types_of_rows = tuple(types)
        self._low = _LEAST

    def between(self, low: int, high: int) -> Change:
        """The rows whose numbers are at least `low`, and less than `high`; consolidated."""
        low = max(low, self._low)
        parts, last, apart = [], -1, True
        for run in self._runs if high > low else ():
            start, end = run.key_hashes.searchsorted(_words(np.array([low, min(high, MOST)])))
            if high > MOST:
                end = len(run)
            if end > start:
                parts.append(run.pick(np.arange(start, end)))
                apart = apart and int(run.key_hashes[start]) > last
                last = int(run.key_hashes[end - 1])
        self.looked_at += sum(map(len, parts))
        if not parts:
            return Change(Rows.empty(self._types_of_rows), self._nothing.weights)
        change = Change.concat(parts)
        return replace(change, consolidated=True) if apart else consolidate(change)

    def drop_below(self, low: int) -> None:
        """Take away the rows whose numbers are less than `low`. The bound never goes back."""
        self._low = max(low, self._low)
        self._cut(0.5)

    def cut(self) -> None:
        """Give back the memory of all rows that were taken away."""
        self._cut(0.0)

    def _cut(self, share: float) -> None:
        """Cut the runs of which more than this share is gone."""
        left = []
        for run in self._runs:
            gone = int(run.key_hashes.searchsorted(_words(np.array([min(self._low, MOST)])))[0])
            if self._low > MOST:
                gone = len(run)
            if gone < len(run):
                left.append(run.take(np.arange(gone, len(run))) if gone > share * len(run) else run)
        if len(left) != len(self._runs) or any(new is not old for new, old in zip(left, self._runs, strict=True)):
            self._runs, self._runs_bytes = left, None

    @property
    def bounds(self) -> tuple[int, int] | tuple[()]:
        """The least and the greatest number; nothing if there are no rows."""
        if self._low > MOST:
            return ()
        low = _words(np.array([self._low]))
        runs = (run.key_hashes[run.key_hashes.searchsorted(low)[0] :] for run in self._runs)
        left = [words for words in runs if len(words)]
        if not left:
            return ()
        return _number(min(words[0] for words in left)), _number(max(words[-1] for words in left))

    def _insert_hashed(self, rows: Rows, weights: Numbers, rounds: ManyRounds, keys: Rows | None) -> None:  # noqa: ARG002 - the order is not that of the keys' hashes
        if len(rows):
            self._insert_run(entries(rows, *self._hashes(rows), weights, rounds))

    def _merges(self, older: Entries, newer: Entries) -> bool:
        return super()._merges(older, newer) and not self._stays_apart(older, newer)

    def _stays_apart(self, older: Entries, newer: Entries) -> bool:
        """Tests whether a run is long enough to be left as it is, and the newer one is later, so that a merge would
        hardly do more than copy both.
        """
        if not self.is_long(older):
            return False
        back = int(newer.key_hashes.searchsorted(older.key_hashes[-1], side="right"))
        return back * _BACK <= len(newer)

    def _hashes(self, rows: Rows, keys: Rows | None = None) -> tuple[Hashes, Hashes]:  # noqa: ARG002 - the key is a number
        return _words(numbers_of(rows)), rows.hashes()


def numbers_of(rows: Rows, column: int = 0) -> Numbers:
    """The values of a column of whole numbers."""
    values = rows.columns[column]
    if not isinstance(values, FixedColumn):
        raise TypeError(f"column {column} has no whole numbers")
    return values.values.astype(np.int64, copy=False)


def _words(numbers: Numbers) -> Hashes:
    """Unsigned words in the order of the numbers."""
    words: Hashes = numbers.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN
    return words


def _number(word: np.uint64) -> int:
    """The number of a word."""
    return int(word ^ _SIGN) - (1 << 64 if not word & _SIGN else 0)

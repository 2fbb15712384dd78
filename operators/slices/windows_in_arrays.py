"""Windows of slices, from groups in arrays with a row for each slice: a window is the difference of two running sums.

Order, numbers and values are those of `SliceRuns` and state joins over the same groups, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.layout import Places, Words, arrow_positions
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from .columns_of_numbers import column_of_numbers
from .dense_groups import GroupTable
from .group_codes import keeps_order
from .slice_runs import are_near

Named = Mapping[int, Callable[[pa.Array], pa.Array]]
"""For keys that are numbered, the values of numbers."""

_ADDED: Final = frozenset({"sum", "count"})
_SPARSE: Final = 8
"""Arrays are worth it if they have at most so many places for each window."""


class WindowsInArrays:
    """The windows of a table of groups whose states are counts and sums. Window n is `length` slices long, and begins
    with slice n * `step`. No combination of keys has more than `most` windows. Key number n of the table has numbers of
    values if n is in `named`, and `types` otherwise.

    Where they do not `pay`, there are no windows to be had: there may be more of them, or numbers beyond 64 bits, or
    states that are not added up; or most places of windows have no group.
    """

    def __init__(
        self, table: GroupTable, types: Sequence[pa.DataType], named: Named, length: int, step: int, most: int
    ) -> None:
        self._totals = table.totals
        self._keys = table.keys
        self._types = types
        self._named = named
        self._slices = slices = len(table.totals.rows)
        last = table.first + slices - 1
        self._first = (table.first - length) // step + 1
        self._windows = max(last // step - self._first + 1, 0)
        self.pays = (
            all(state.function in _ADDED for state in table.totals.states)
            and are_near(table.first, last, length, step)
            and self._windows <= most
        )
        if not self.pays:
            return
        begins = np.arange(self._first, self._first + self._windows) * step - table.first
        self._begins = np.clip(begins, 0, slices)
        self._ends = np.clip(begins + length, 0, slices)
        there = table.totals.rows != 0
        self._columns = np.flatnonzero(there.any(axis=0))
        groups = int(np.count_nonzero(there))
        least_windows = max(groups, len(self._columns) * length) // step
        self.pays = self._windows * len(self._columns) <= _SPARSE * max(least_windows, 1)
        if self.pays:
            self._codes = self._in_order(there, groups)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The windows that have a group, by their groups' keys, then by number: in columns of these types."""
        at_once = max(1, BLOCK_ROWS // max(self._windows, self._slices, 1))
        for begin in range(0, len(self._columns), at_once):
            chosen = slice(begin, begin + at_once)
            columns = self._columns[chosen]
            totals = self._totals.changed(lambda cells: self._slid(cells, columns))  # noqa: B023 - at once
            keys = self._values_of([codes[chosen] for codes in self._codes], schema)
            there = np.flatnonzero(totals.rows != 0)
            for first in range(0, len(there), BLOCK_ROWS):
                at = there[first : first + BLOCK_ROWS]
                owners = at // self._windows
                numbers = at - owners * self._windows
                numbers += self._first
                own = arrow_positions(owners)
                states = totals.of(slice(None) if len(at) == len(totals.rows) else at)
                types = schema.types[1 + len(keys) :]
                yield batch_of(
                    [
                        arrow_positions(numbers),
                        *(key.take(own) for key in keys),
                        *(column_of_numbers(*state, type_) for state, type_ in zip(states, types, strict=True)),
                    ],
                    len(at),
                    schema,
                )

    def _slid(self, cells: Words, columns: Places) -> Words:
        """The sums of windows over these columns of an array: one column after the other."""
        before = np.zeros((len(columns), self._slices + 1), np.int64)
        np.cumsum(cells[:, columns].T, axis=1, out=before[:, 1:])
        sums: Words = before[:, self._ends]
        sums -= before[:, self._begins]
        return sums.ravel()

    def _values_of(self, codes: Sequence[Words], schema: pa.Schema) -> list[pa.Array]:
        """The keys' values of columns with these codes."""
        values = []
        for at, (axis, own) in enumerate(zip(self._keys, codes, strict=True)):
            named = self._named.get(at)
            type_ = pa.int64() if named is not None else schema.types[1 + at]
            numbers = column_of_numbers(own + (axis.least - 1), own == 0, type_)
            values.append(numbers if named is None else named(numbers))
        return values

    def _in_order(self, there: np.ndarray, groups: int) -> list[Words]:
        """Sort the columns as `group_codes` would sort their groups; the codes of each key, by column."""
        codes, ranks = [], []
        before = len(there)
        sizes = [axis.size for axis in self._keys]
        cells = there.reshape(-1, *sizes)
        for at, own in enumerate(np.unravel_index(self._columns, sizes) if sizes else ()):
            codes.append(own)
            least, most = int(own.min()), int(own.max())
            if at in self._named or not least or not keeps_order(self._types[at], least, most, groups):
                behind = tuple(range(2 + at, 1 + len(sizes)))
                seen = cells.any(axis=behind).reshape(before, sizes[at])
                ranks.append(_ranks(np.argmax(seen, axis=0))[own])
            else:
                ranks.append(own)
            before *= sizes[at]
        if all(rank is code for rank, code in zip(ranks, codes, strict=True)):
            return codes
        order = np.lexsort(ranks[::-1])
        self._columns = self._columns[order]
        return [own[order] for own in codes]


def _ranks(first: Places) -> Places:
    """The rank of each code by the place of its first group. Of two in one place, the lower one comes first."""
    ranks = np.empty(len(first), np.int64)
    ranks[np.argsort(first, kind="stable")] = np.arange(len(first))
    return ranks

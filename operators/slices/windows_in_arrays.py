"""Windows of slices, from groups in arrays with a row for each slice: a window is the difference of two running sums.

Order, numbers and values are those of `SliceRuns` and state joins over the same groups, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.layout import Flags, Places, Words, arrow_positions
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from .columns_of_numbers import column_of_numbers
from .dense_groups import GroupTable
from .group_codes import keeps_order
from .group_domain import Axis
from .group_totals import GroupTotals
from .slice_runs import are_near

Named = Mapping[int, Callable[[pa.Array], pa.Array]]
"""For keys that are numbered, the values of numbers."""

_ADDED: Final = frozenset({"sum", "count"})
_SPARSE: Final = 8
"""Arrays are worth it if they have at most so many places for each window."""


def windows_in_arrays(
    table: GroupTable, types: Sequence[pa.DataType], named: Named, length: int, step: int, most: int
) -> WindowsInArrays | None:
    """The windows of a table of groups. Window n is `length` slices long, and begins with slice n * `step`. Key number
    n of the table has numbers of values if n is in `named`, and `types` otherwise.

    None where they do not pay or cannot be had: a combination of keys has more than `most` windows, or most places of
    windows have no group; a number is beyond 64 bits; a state is not added up.
    """
    slices = len(table.totals.rows)
    last = table.first + slices - 1
    added = all(state.function in _ADDED for state in table.totals.states)
    if not added or not are_near(table.first, last, length, step):
        return None
    first = (table.first - length) // step + 1
    windows = max(last // step - first + 1, 0)
    if windows > most:
        return None
    there = table.totals.rows != 0
    columns = np.flatnonzero(there.any(axis=0))
    groups = int(np.count_nonzero(there))
    least_windows = max(groups, len(columns) * length) // step
    if windows * len(columns) > _SPARSE * max(least_windows, 1):
        return None
    columns, codes = _in_order(table.keys, types, named, there, columns)
    begins = np.arange(first, first + windows) * step - table.first
    return WindowsInArrays(
        totals=table.totals,
        keys=table.keys,
        named=named,
        columns=columns,
        codes=codes,
        first=first,
        begins=np.clip(begins, 0, slices),
        ends=np.clip(begins + length, 0, slices),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowsInArrays:
    """The windows of some columns of `totals`, in this order. Each key has `codes`, one for each of these columns.
    Windows have numbers from `first` on. They have the slices from the positions `begins` to before `ends`.
    """

    totals: GroupTotals
    keys: Sequence[Axis]
    named: Named
    columns: Places
    codes: Sequence[Words]
    first: int
    begins: Places
    ends: Places

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The windows that have a group, by their groups' keys, then by number: in columns of these types."""
        windows, slices = len(self.begins), len(self.totals.rows)
        at_once = max(1, BLOCK_ROWS // max(windows, slices, 1))
        for begin in range(0, len(self.columns), at_once):
            chosen = slice(begin, begin + at_once)
            columns = self.columns[chosen]
            totals = self.totals.changed(lambda cells: self._slid(cells, columns))  # noqa: B023 - at once
            keys = self._values_of([codes[chosen] for codes in self.codes], schema)
            there = np.flatnonzero(totals.rows != 0)
            for first in range(0, len(there), BLOCK_ROWS):
                at = there[first : first + BLOCK_ROWS]
                owners = at // windows
                numbers = at - owners * windows
                numbers += self.first
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
        before = np.zeros((len(columns), len(cells) + 1), np.int64)
        np.cumsum(cells[:, columns].T, axis=1, out=before[:, 1:])
        sums: Words = before[:, self.ends]
        sums -= before[:, self.begins]
        return sums.ravel()

    def _values_of(self, codes: Sequence[Words], schema: pa.Schema) -> list[pa.Array]:
        """The keys' values of columns with these codes."""
        values = []
        for at, (axis, own) in enumerate(zip(self.keys, codes, strict=True)):
            named = self.named.get(at)
            type_ = pa.int64() if named is not None else schema.types[1 + at]
            numbers = column_of_numbers(own + (axis.least - 1), own == 0, type_)
            values.append(numbers if named is None else named(numbers))
        return values


def _in_order(
    keys: Sequence[Axis], types: Sequence[pa.DataType], named: Named, there: Flags, columns: Places
) -> tuple[Places, list[Words]]:
    """Sort the columns of a table as `group_codes` would sort their groups; the codes of each key, by column. `there`
    is true where the table has a group.
    """
    codes, ranks = [], []
    before, groups = len(there), int(np.count_nonzero(there))
    sizes = [axis.size for axis in keys]
    cells = there.reshape(-1, *sizes)
    for at, own in enumerate(np.unravel_index(columns, sizes) if sizes else ()):
        codes.append(own)
        least, most = int(own.min()), int(own.max())
        if at in named or not least or not keeps_order(types[at], least, most, groups):
            behind = tuple(range(2 + at, 1 + len(sizes)))
            seen = cells.any(axis=behind).reshape(before, sizes[at])
            ranks.append(_ranks(np.argmax(seen, axis=0))[own])
        else:
            ranks.append(own)
        before *= sizes[at]
    if all(rank is code for rank, code in zip(ranks, codes, strict=True)):
        return columns, codes
    order = np.lexsort(ranks[::-1])
    return columns[order], [own[order] for own in codes]


def _ranks(first: Places) -> Places:
    """The rank of each code by the place of its first group. Of two in one place, the lower one comes first."""
    ranks = np.empty(len(first), np.int64)
    ranks[np.argsort(first, kind="stable")] = np.arange(len(first))
    return ranks

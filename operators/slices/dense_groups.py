"""Groups by whole numbers that lie close together, in arrays with a place for each possible group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import Flags, Words, flags, values
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from .columns_of_numbers import column_of_numbers
from .group_domain import Axis, Bounds, GroupDomain, filled
from .group_positions import GroupKey, positions
from .group_totals import GroupState, GroupTotals, Pair
from .packed_sums import PackedSums, counts_and_sums
from .wide_sums import WORD

_FIRST_LOOK: Final = 256
"""If so many times do not ascend, nobody looks at the others."""
_IDENTITY: Final = {"sum": 0, "min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}
_JOINED: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class DenseGroups:
    """Groups by keys, of which there is at least one. There are at most `room` places for groups: a place for each
    combination of keys between the least and the greatest ones, and of nulls. Columns that are sliced have no null.
    """

    def __init__(self, keys: Sequence[GroupKey], states: Sequence[GroupState], room: int) -> None:
        self._keys = keys
        self._states = states
        self._room = room
        self._domain: GroupDomain | None = None
        self._packed: PackedSums | None = None
        self._packed_column = _packed_column(states)
        self._rows = np.zeros(0, np.int64)
        """Empty while all rows are in packed words."""
        self._valid: dict[Pair, Words] = {}
        self._values: dict[int, Words] = {}
        self._bound = 0
        self._seen: Sequence[Bounds] = ()
        """The least and the greatest value of each key."""

    def add(self, block: pa.RecordBatch) -> bool:
        """Count the rows of the block, of which there is at least one. False, and nothing is counted, where there is no
        room for them beside the groups that are there, or where words do not hold their values.
        """
        columns = [block.column(key.column) for key in self._keys]
        ascending = self._keys[0].size is not None and _is_ascending(columns[0])
        bounds = self._bounds_of(columns, ascending)
        sums = self._sums_in(block)
        if self._bound + sums >= WORD or not self._holds(block) or not self._makes_room(bounds):
            return False
        assert self._domain is not None
        self._bound += sums
        at = positions(self._domain.axes, self._keys, columns, bounds, ascending)
        if self._packed_column is None or not self._pack(block, self._packed_column, at, sums, self._domain.size):
            self._count(block, at, self._domain.size)
        return True

    def would_fit(self, block: pa.RecordBatch, room: int) -> bool:
        """Tests whether so much room would have been enough for the keys of the block, as the first ones."""
        bounds = self._bounds_of([block.column(key.column) for key in self._keys], False)
        return GroupDomain.over(bounds, room) is not None

    def _bounds_of(self, columns: Sequence[pa.Array], ascending: bool) -> list[Bounds]:
        """The least and the greatest value of each key, of which the first one may be ascending."""
        return [
            _key_bounds(key, _ends(column) if ascending and not number else _bounds(column))
            for number, (key, column) in enumerate(zip(self._keys, columns, strict=True))
        ]

    def _makes_room(self, bounds: Sequence[Bounds]) -> bool:
        """Make places for keys within these bounds, and keep those that are there; False if there is no room."""
        before, seen = self._domain, self._seen
        if before is None:
            domain, after = GroupDomain.first(bounds, self._room), list(bounds)
        else:
            after = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(seen, bounds, strict=True)]
            domain = before if before.has(bounds) else before.with_room(after, self._room)
        if domain is None:
            return False
        self._domain, self._seen = domain, after
        if before is not None and domain is not before:
            self._move(before, domain, before.end(seen[0][1]))
        return True

    def _move(self, before: GroupDomain, domain: GroupDomain, used: int) -> None:
        if self._packed is not None:
            self._packed.words = domain.moved(before, self._packed.words, used, 0)
        if len(self._rows):
            self._rows = domain.moved(before, self._rows, used, 0)
        self._valid = {pair: domain.moved(before, counts, used, 0) for pair, counts in self._valid.items()}
        self._values = {
            number: domain.moved(before, numbers, used, _IDENTITY[self._states[number].function])
            for number, numbers in self._values.items()
        }

    def take(self, schema: pa.Schema, at_once: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """The groups so far, in order of their keys, in columns of these types. There are none afterwards."""
        if self._domain is None:
            return
        domain, (_, last) = self._domain, self._seen[0]
        totals = self._totals()
        self._clear()
        there = np.flatnonzero(totals.rows[: domain.end(last)] != 0)
        types = schema.types[len(self._keys) :]
        for begin in range(0, len(there), at_once):
            at = there[begin : begin + at_once]
            keys = domain.keys(at, schema.types[: len(self._keys)])
            states = (column_of_numbers(*one, type_) for one, type_ in zip(totals.of(at), types, strict=True))
            yield batch_of([*keys, *states], len(at), schema)

    def table(self) -> GroupTable | None:
        """The groups so far as a table, which changes with the next rows; None without rows."""
        if self._domain is None:
            return None
        first, last = self._seen[0]
        begin, end = self._domain.end(first - 1), self._domain.end(last)

        def by_slice(cells: Words) -> Any:
            return cells[begin:end].reshape(last - first + 1, -1)

        return GroupTable(totals=self._totals().changed(by_slice), first=first, keys=self._domain.axes[1:])

    def _totals(self) -> GroupTotals:
        if self._packed is not None and len(self._rows):
            self._unpack()
        packed = self._packed
        return GroupTotals(
            states=self._states,
            rows=self._rows if packed is None else packed.words,
            packed=packed is not None,
            valid=self._valid,
            values=self._values,
        )

    def _clear(self) -> None:
        self._domain, self._packed, self._rows = None, None, np.zeros(0, np.int64)
        self._valid, self._values, self._bound = {}, {}, 0

    def _holds(self, block: pa.RecordBatch) -> bool:
        """Tests whether words hold the values of which the least or the greatest is wanted. Words have a sign."""
        wanted = (state.values for state in self._states if state.function in ("min", "max"))
        columns = (block.column(number) for number in wanted if number is not None)
        return all(_bounds(column)[1] <= _IDENTITY["min"] for column in columns if kinds.is_uint64(column.type))

    def _sums_in(self, block: pa.RecordBatch) -> int:
        """A bound of all sums of the block's values."""
        rows: int = block.num_rows
        return max((self._largest(block, state) for state in self._states), default=0) * rows

    def _largest(self, block: pa.RecordBatch, state: GroupState) -> int:
        if state.function != "sum" or state.values is None:
            return 0
        least, most = _bounds(block.column(state.values))
        return max(-least, most)

    def _pack(self, block: pa.RecordBatch, column: int, at: Words, sums: int, size: int) -> bool:
        """Count the rows of the block in packed words. False, and nothing is counted, if words cannot have them."""
        read = [block.column(state.values) for state in self._states if state.values is not None]
        if any(one.null_count for one in read) or not PackedSums.pays(len(at), sums):
            self._packed_column = None
            self._unpack()
            return False
        if self._packed is not None and not self._packed.has_room(len(at), sums):
            self._unpack()
        if self._packed is None:
            self._packed = PackedSums(size)
        self._packed.add(at, values(block.column(column)), sums)
        return True

    def _unpack(self) -> None:
        if self._packed is None:
            return
        counts, sums = counts_and_sums(self._packed.words)
        self._packed = None
        self._rows = self._rows + counts if len(self._rows) else counts
        for number, state in enumerate(self._states):
            if state.function == "sum":
                before = self._values.get(number)
                self._values[number] = sums.copy() if before is None else before + sums

    def _count(self, block: pa.RecordBatch, at: Words, size: int) -> None:
        if not len(self._rows):
            self._rows = np.zeros(size, np.int64)
        kept: dict[Pair, Flags | None] = {}
        for state in self._states:
            pair = state.values, state.condition
            if pair not in kept:
                kept[pair] = _kept(block, *pair)
                if kept[pair] is not None and pair not in self._valid:
                    self._valid[pair] = self._rows.copy()
        np.add.at(self._rows, at, 1)
        for pair, counts in self._valid.items():
            mask = kept[pair]
            np.add.at(counts, at if mask is None else at[mask], 1)
        for number, state in enumerate(self._states):
            if state.function == "count" or state.values is None:
                continue
            mask = kept[state.values, state.condition]
            column = values(block.column(state.values)).astype(np.int64, copy=False)
            if number not in self._values:
                self._values[number] = filled(len(self._rows), _IDENTITY[state.function])
            where, numbers = (at, column) if mask is None else (at[mask], column[mask])
            _JOINED[state.function].at(self._values[number], where, numbers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupTable:
    """Groups in arrays of two dimensions: a row for each number of the first key from `first` on, a column for each
    combination of the codes of the other keys.
    """

    totals: GroupTotals
    first: int
    keys: Sequence[Axis]


def _packed_column(states: Sequence[GroupState]) -> int | None:
    """The only column that is added up, if the other states are counts, and no state has a condition."""
    columns = {state.values for state in states if state.function == "sum"}
    plain = all(state.function in ("sum", "count") and state.condition is None for state in states)
    return columns.pop() if plain and len(columns) == 1 else None


def _key_bounds(key: GroupKey, bounds: Bounds) -> Bounds:
    """The least and the greatest value of a key, whose column has these. There is no room for slices whose times are
    too far away.
    """
    least, most = bounds
    if key.size is None:
        return least, most
    if max(-least, most) + abs(key.origin) + key.size > WORD:
        return -WORD - 1, WORD + 1
    return (least - key.origin) // key.size, (most - key.origin) // key.size


def _is_ascending(column: pa.Array) -> bool:
    numbers = values(column)
    return all(bool(np.all(some[1:] >= some[:-1])) for some in (numbers[:_FIRST_LOOK], numbers))


def _ends(column: pa.Array) -> Bounds:
    numbers = values(column)
    return int(numbers[0]), int(numbers[-1])


def _bounds(column: pa.Array) -> tuple[int, int]:
    """The least and the greatest value; 0 and 0 if all are null."""
    if column.null_count:
        column = column.drop_null()
    if not len(column):
        return 0, 0
    numbers = values(column)
    return int(numbers.min()), int(numbers.max())


def _kept(block: pa.RecordBatch, column: int | None, condition: int | None) -> Flags | None:
    """True for the rows that count; None where all do."""
    kept = None if condition is None else flags(block.column(condition))
    if column is None or not block.column(column).null_count:
        return kept
    known = flags(block.column(column).is_valid())
    return known if kept is None else kept & known

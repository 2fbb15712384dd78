"""Groups by whole numbers that lie close together, in arrays with a place for each possible group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import Flags, Words, flags, values
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from .wide_sums import decimals, validity

GroupFunction = Literal["sum", "count", "min", "max"]

_WORD: Final = 1 << 62
_FIRST_PLACES: Final = 1 << 16
"""Arrays begin with so many places, and double: unused places would have to be cleared as well."""
_IDENTITY: Final = {"sum": 0, "min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}
_JOINED: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A key of groups: a column's values, or the numbers of its slices of `size` units, of which slice 0 begins at
    `origin`.
    """

    column: int
    size: int | None = None
    origin: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A state of groups: of the values of the input's column `values`, or of all rows, where the column `condition` is
    true, if there is one.
    """

    function: GroupFunction
    values: int | None
    condition: int | None


class DenseGroups:
    """Groups by keys, of which there is at least one. There are at most `room` places for groups: a place for each
    combination of keys between the least and the greatest ones, and of nulls. Columns that are sliced have no null.
    """

    def __init__(self, keys: Sequence[GroupKey], states: Sequence[GroupState], schema: pa.Schema, room: int) -> None:
        self._keys = keys
        self._states = states
        self._schema = schema
        self._room = room
        self._domain: _Domain | None = None
        self._rows = np.zeros(0, np.int64)
        self._valid: dict[tuple[int | None, int | None], Words] = {}
        self._values: dict[int, Words] = {}
        self._bound = 0
        self._most = 0

    def add(self, block: pa.RecordBatch) -> bool:
        """Count the rows of the block, of which there is at least one. False, and nothing is counted, where there is no
        room for them beside the groups that are there.
        """
        columns = [block.column(key.column) for key in self._keys]
        bounds = [_key_bounds(key, column) for key, column in zip(self._keys, columns, strict=True)]
        bound = self._bound + max((self._largest(block, state) for state in self._states), default=0) * block.num_rows
        if bound >= _WORD or not self._makes_room(bounds):
            return False
        assert self._domain is not None
        self._bound = bound
        self._count(block, self._domain.positions(self._keys, columns, bounds))
        return True

    def _makes_room(self, bounds: Sequence[tuple[int, int]]) -> bool:
        """Make places for keys within these bounds, and keep those that are there; False if there is no room."""
        before, most = self._domain, bounds[0][1]
        if before is None:
            self._domain = _Domain.over(bounds, self._room)
            if self._domain is not None:
                self._most = most
                self._rows = np.zeros(self._domain.size, np.int64)
            return self._domain is not None
        if before.has(bounds):
            self._most = max(self._most, most)
            return True
        domain = before.with_room(bounds, self._most, self._room)
        if domain is None:
            return False
        used = before.end(self._most)
        self._domain, self._most = domain, max(self._most, most)
        self._rows = domain.moved(before, self._rows, used, 0)
        self._valid = {pair: domain.moved(before, counts, used, 0) for pair, counts in self._valid.items()}
        self._values = {
            number: domain.moved(before, numbers, used, _IDENTITY[self._states[number].function])
            for number, numbers in self._values.items()
        }
        return True

    def take(self) -> Iterator[pa.RecordBatch]:
        """The groups so far, in order of their keys. There are none afterwards."""
        domain, rows, valid, numbers = self._domain, self._rows, self._valid, self._values
        if domain is None:
            return
        there = np.flatnonzero(rows[: domain.end(self._most)])
        self._domain, self._valid, self._values, self._bound = None, {}, {}, 0
        for begin in range(0, len(there), BLOCK_ROWS):
            at = there[begin : begin + BLOCK_ROWS]
            states = []
            for number, state in enumerate(self._states):
                counts = valid.get((state.values, state.condition), rows)[at]
                type_ = self._schema.field(len(self._keys) + number).type
                totals = counts if state.function == "count" else numbers[number][at]
                states.append(_column(totals, (counts == 0) & (state.function != "count"), type_))
            keys = domain.keys(at, self._schema.types[: len(self._keys)])
            yield batch_of([*keys, *states], len(at), self._schema)

    def _largest(self, block: pa.RecordBatch, state: GroupState) -> int:
        if state.function != "sum" or state.values is None:
            return 0
        least, most = _bounds(block.column(state.values))
        return max(-least, most)

    def _count(self, block: pa.RecordBatch, at: Words) -> None:
        kept: dict[tuple[int | None, int | None], Flags | None] = {}
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
                self._values[number] = _filled(len(self._rows), _IDENTITY[state.function])
            where, numbers = (at, column) if mask is None else (at[mask], column[mask])
            _JOINED[state.function].at(self._values[number], where, numbers)


class _Domain:
    """The possible combinations of keys: each key is at least `least`, and less than `least` + its size - 1."""

    def __init__(self, least: Sequence[int], sizes: Sequence[int]) -> None:
        self._least = least
        self._sizes = sizes
        self.size = _product(sizes)

    @classmethod
    def over(cls, bounds: Sequence[tuple[int, int]], room: int) -> _Domain | None:
        """A domain that has all values within these bounds, and, if there is room, as many more of the first key."""
        least = [bound[0] for bound in bounds]
        sizes = [most - first + 2 for first, most in bounds]
        others = _product(sizes[1:])
        farthest = max(abs(number) for bound in bounds for number in bound)
        if sizes[0] * others > room or farthest > _WORD:
            return None
        first = min(room // others, max(2 * sizes[0], _FIRST_PLACES // others))
        return cls(least, [first, *sizes[1:]])

    def with_room(self, bounds: Sequence[tuple[int, int]], most: int, room: int) -> _Domain | None:
        """A domain that has the values within these bounds, too; `most` is the greatest one of the first key so far.
        Where there is room, it has more of those keys that go beyond theirs, so that they rarely do so again.
        """
        known = [(least, least + size - 2) for least, size in zip(self._least, self._sizes, strict=True)]
        both = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, bounds, strict=True)]
        first = min(known[0][0], bounds[0][0]), max(most, bounds[0][1])
        ample = [
            (low - (high - low if low < before[0] else 0), high + (high - low if high > before[1] else 0))
            for (low, high), before in zip(both[1:], known[1:], strict=True)
        ]
        return _Domain.over([first, *ample], room) or _Domain.over([first, *both[1:]], room)

    def moved(self, before: _Domain, totals: Words, used: int, empty: int) -> Words:
        """An array of this domain with the first `used` numbers of an earlier one, whose domain this one contains."""
        sizes = [used // (before.size // before._sizes[0]), *before._sizes[1:]]
        to = []
        for size, least, own in zip(sizes, before._least, self._least, strict=True):
            codes = np.arange(size) + (least - own)
            codes[:1] = 0  # of null
            to.append(codes)
        moved = _filled(self.size, empty)
        moved.reshape(self._sizes)[np.ix_(*to)] = totals[:used].reshape(sizes)
        return moved

    def has(self, bounds: Sequence[tuple[int, int]]) -> bool:
        """Tests whether all values within these bounds are in the domain."""
        return all(
            first >= least and most - least < size - 1
            for (first, most), least, size in zip(bounds, self._least, self._sizes, strict=True)
        )

    def end(self, most: int) -> int:
        """The first position behind those of this number of the first key."""
        return (most - self._least[0] + 2) * (self.size // self._sizes[0])

    def positions(
        self, keys: Sequence[GroupKey], columns: Sequence[pa.Array], bounds: Sequence[tuple[int, int]]
    ) -> Words:
        at: Words | int = 0
        for key, column, bound, least, size in zip(keys, columns, bounds, self._least, self._sizes, strict=True):
            at *= size
            if bound[0] == bound[1] and not column.null_count:
                at += bound[0] - (least - 1)
            elif isinstance(at, int):
                before, at = at, _codes(key, column, least)
                at += before
            else:
                at += _codes(key, column, least)
        return np.full(len(columns[0]), at) if isinstance(at, int) else at

    def keys(self, at: Words, types: Sequence[pa.DataType]) -> list[pa.Array]:
        columns = []
        for least, size, type_ in zip(reversed(self._least), reversed(self._sizes), reversed(types), strict=True):
            at, codes = np.divmod(at, size)
            columns.append(_column(codes + (least - 1), codes == 0, type_))
        return columns[::-1]


def _product(sizes: Sequence[int]) -> int:
    return int(np.prod(np.array(sizes, dtype=object)))


def _filled(size: int, number: int) -> Words:
    """An array of this number. Zeros take memory only where they are written to."""
    return np.full(size, number) if number else np.zeros(size, np.int64)


def _codes(key: GroupKey, column: pa.Array, least: int) -> Words:
    """The keys as distances from `least` - 1, in a new array; nulls are 0. Their bounds fit."""
    size = key.size or 1
    codes = np.subtract(values(column), key.origin + size * (least - 1), dtype=np.int64, casting="unsafe")
    if key.size is not None:
        codes //= size
    elif column.null_count:
        codes[flags(column.is_null())] = 0
    return codes


def _key_bounds(key: GroupKey, column: pa.Array) -> tuple[int, int]:
    """The least and the greatest value of a key. There is no room for slices whose times are too far away."""
    least, most = _bounds(column)
    if key.size is None:
        return least, most
    if max(-least, most) + abs(key.origin) + key.size > _WORD:
        return -_WORD - 1, _WORD + 1
    return (least - key.origin) // key.size, (most - key.origin) // key.size


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


def _column(numbers: Words, null: Flags, type_: pa.DataType) -> pa.Array:
    if kinds.is_decimal(type_):
        return decimals(numbers, numbers >> 63, null, type_)
    words = np.where(null, 0, numbers).astype(f"i{type_.bit_width // 8}")
    return pa.Array.from_buffers(type_, len(words), [validity(null), pa.py_buffer(words)])

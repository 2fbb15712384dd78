"""Groups by whole numbers that lie close together, in arrays with a place for each possible group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import Flags, Words, flags, values
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from .columns_of_numbers import ascending_numbers, column_of_numbers, repeated
from .packed_sums import PackedSums, counts_and_sums

GroupFunction = Literal["sum", "count", "min", "max"]
_Bounds: TypeAlias = tuple[int, int]
_Pair: TypeAlias = tuple[int | None, int | None]
"""The column of a state's values, and its condition."""
_Total: TypeAlias = tuple[Words, Flags | None]
"""A state of groups, and where it is null."""

_WORD: Final = 1 << 62
_FIRST_PLACES: Final = 1 << 16
"""Arrays begin with so many places, and double: unused places would have to be cleared as well."""
_AHEAD: Final = 8
"""Arrays of more keys have room for so many times the slices of the first rows: the system clears the pages of such
large arrays when they are first used, and to move to a larger array costs a copy.
"""
_FEW: Final = 3
"""If the rows of a block are in so many more slices than one, they are numbered slice by slice where times ascend."""
_FIRST_LOOK: Final = 256
"""If so many times do not ascend, nobody looks at the others."""
_SLACK: Final = 16
"""There are places for keys beyond the first ones, of one part in so many of their range on each side."""
_IDENTITY: Final = {"sum": 0, "min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}
_JOINED: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A key of groups: a column's values, or the numbers of its slices of `size` units, of which slice 0 begins at
    `origin`. Values that are no whole numbers have to be `numbered`.
    """

    column: int
    size: int | None = None
    origin: int = 0
    numbered: bool = False


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

    def __init__(self, keys: Sequence[GroupKey], states: Sequence[GroupState], room: int) -> None:
        self._keys = keys
        self._states = states
        self._room = room
        self._domain: _Domain | None = None
        self._packed: PackedSums | None = None
        self._packed_column = _packed_column(states)
        self._rows = np.zeros(0, np.int64)
        """Empty while all rows are in packed words."""
        self._valid: dict[_Pair, Words] = {}
        self._values: dict[int, Words] = {}
        self._bound = 0
        self._seen: Sequence[_Bounds] = ()
        """The least and the greatest value of each key."""

    def add(self, block: pa.RecordBatch) -> bool:
        """Count the rows of the block, of which there is at least one. False, and nothing is counted, where there is no
        room for them beside the groups that are there, or where words do not hold their values.
        """
        columns = [block.column(key.column) for key in self._keys]
        ascending = self._keys[0].size is not None and _is_ascending(columns[0])
        bounds = self._bounds_of(columns, ascending)
        sums = self._sums_in(block)
        if self._bound + sums >= _WORD or not self._holds(block) or not self._makes_room(bounds):
            return False
        assert self._domain is not None
        self._bound += sums
        at = self._domain.positions(self._keys, columns, bounds, ascending)
        if self._packed_column is None or not self._pack(block, self._packed_column, at, sums, self._domain.size):
            self._count(block, at, self._domain.size)
        return True

    def would_fit(self, block: pa.RecordBatch, room: int) -> bool:
        """Tests whether so much room would have been enough for the keys of the block, as the first ones."""
        bounds = self._bounds_of([block.column(key.column) for key in self._keys], False)
        return _Domain.over(bounds, room) is not None

    def _bounds_of(self, columns: Sequence[pa.Array], ascending: bool) -> list[_Bounds]:
        """The least and the greatest value of each key, of which the first one may be ascending."""
        return [
            _key_bounds(key, _ends(column) if ascending and not number else _bounds(column))
            for number, (key, column) in enumerate(zip(self._keys, columns, strict=True))
        ]

    def _makes_room(self, bounds: Sequence[_Bounds]) -> bool:
        """Make places for keys within these bounds, and keep those that are there; False if there is no room."""
        before, seen = self._domain, self._seen
        if before is None:
            domain, after = _Domain.first(bounds, self._room), list(bounds)
        else:
            after = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(seen, bounds, strict=True)]
            domain = before if before.has(bounds) else before.with_room(after, self._room)
        if domain is None:
            return False
        self._domain, self._seen = domain, after
        if before is not None and domain is not before:
            self._move(before, domain, before.end(seen[0][1]))
        return True

    def _move(self, before: _Domain, domain: _Domain, used: int) -> None:
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
        if len(self._rows):
            self._unpack()
        domain, packed, totals = self._domain, self._packed, (self._rows, self._valid, self._values)
        words = totals[0] if packed is None else packed.words
        there = np.flatnonzero(words[: domain.end(self._seen[0][1])])
        self._domain, self._packed, self._rows = None, None, np.zeros(0, np.int64)
        self._valid, self._values, self._bound = {}, {}, 0
        types = schema.types[len(self._keys) :]
        for begin in range(0, len(there), at_once):
            at = there[begin : begin + at_once]
            keys = domain.keys(at, schema.types[: len(self._keys)])
            states = self._unpacked(words[at]) if packed is not None else self._totals(at, *totals)
            yield batch_of(
                [*keys, *(column_of_numbers(*one, type_) for one, type_ in zip(states, types, strict=True))],
                len(at),
                schema,
            )

    def _unpacked(self, words: Words) -> list[_Total]:
        counts, sums = counts_and_sums(words)
        return [(counts if state.function == "count" else sums, None) for state in self._states]

    def _totals(
        self, at: Words, rows: Words, valid: Mapping[_Pair, Words], values: Mapping[int, Words]
    ) -> Iterator[_Total]:
        for number, state in enumerate(self._states):
            counts = valid.get((state.values, state.condition))
            if state.function == "count":
                yield (rows if counts is None else counts)[at], None
            else:
                yield values[number][at], None if counts is None else counts[at] == 0

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
        kept: dict[_Pair, Flags | None] = {}
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
        ahead = _AHEAD if others > _FIRST_PLACES else 2
        first = min(room // others, max(ahead * sizes[0], _FIRST_PLACES // others))
        return cls(least, [first, *sizes[1:]])

    @classmethod
    def first(cls, bounds: Sequence[_Bounds], room: int) -> _Domain | None:
        """A domain for the first rows. Later ones often have keys somewhat beyond theirs, except for the first key."""
        ample = [(low - (high - low) // _SLACK, high + (high - low) // _SLACK) for low, high in bounds[1:]]
        return cls.over([bounds[0], *ample], room) or cls.over(bounds, room)

    def with_room(self, seen: Sequence[_Bounds], room: int) -> _Domain | None:
        """A domain that has the values within these bounds. Where there is room, it also has all values of this domain,
        and more of those keys that go beyond it, so that they rarely do so again.
        """
        known = [(least, least + size - 2) for least, size in zip(self._least, self._sizes, strict=True)]
        both = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, seen, strict=True)]
        ample = [
            (low - (high - low if low < before[0] else 0), high + (high - low if high > before[1] else 0))
            for (low, high), before in zip(both[1:], known[1:], strict=True)
        ]
        choices = ([seen[0], *ample], [seen[0], *both[1:]], seen)
        return next((domain for bounds in choices if (domain := _Domain.over(bounds, room)) is not None), None)

    def moved(self, before: _Domain, totals: Words, used: int, empty: int) -> Words:
        """An array of this domain with the first `used` numbers of an earlier one, which has other keys only where it
        is empty.
        """
        sizes = [used // (before.size // before._sizes[0]), *before._sizes[1:]]
        moved = _filled(self.size, empty)
        target, source = moved.reshape(self._sizes), totals[:used].reshape(sizes)
        axes = zip(self._least, self._sizes, before._least, sizes, strict=True)
        for parts in product(*(_common_codes(*axis) for axis in axes)):
            target[tuple(mine for mine, _ in parts)] = source[tuple(other for _, other in parts)]
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
        self, keys: Sequence[GroupKey], columns: Sequence[pa.Array], bounds: Sequence[_Bounds], ascending: bool
    ) -> Words:
        """The place of each row. The times that are sliced may be ascending."""
        base, stride, at = 0, 1, None
        several = []
        for number in range(len(keys) - 1, -1, -1):
            least, bound, column = self._least[number], bounds[number], columns[number]
            if bound[0] == bound[1] and not column.null_count:
                base += (bound[0] - (least - 1)) * stride
            else:
                several.append((keys[number], column, bound, least, stride))
            stride *= self._sizes[number]
        for key, column, bound, least, scale in several:  # slices last: there are few of them in neighbouring rows
            if at is not None and ascending and (ends := _ends_of_slices(key, column, bound)) is not None:
                for code, (begin, end) in enumerate(pairwise([0, *ends, len(at)]), bound[0] - (least - 1)):
                    at[begin:end] += code * scale
                continue
            codes = _codes(key, column, least, base if scale == 1 else 0)
            if scale != 1:
                codes *= scale
                codes += base
            at = codes if at is None else np.add(at, codes, out=at)
            base = 0
        return np.full(len(columns[0]), base) if at is None else at

    def keys(self, at: Words, types: Sequence[pa.DataType]) -> list[pa.Array]:
        """The keys of these places, of which there is at least one, and which ascend."""
        columns: list[pa.Array] = []
        stride, before = self.size, 0
        for least, size, type_ in zip(self._least[:-1], self._sizes[:-1], types[:-1], strict=True):
            stride //= size
            code = (int(at[0]) - before) // stride
            if (int(at[-1]) - before) // stride != code:
                return columns + self._several_keys(at - before, types, len(columns))
            before += code * stride
            columns.append(repeated(code + (least - 1) if code else None, len(at), type_))
        return [*columns, ascending_numbers(at, self._least[-1] - 1 - before, at[0] == before, types[-1])]

    def _several_keys(self, at: Words, types: Sequence[pa.DataType], first: int) -> list[pa.Array]:
        """The keys from number `first` on, of places among those of one combination of the keys before it."""
        columns = []
        for number in range(len(self._sizes) - 1, first - 1, -1):
            codes = at
            if number > first:
                at = codes // self._sizes[number]
                codes = codes - at * self._sizes[number]
            columns.append(column_of_numbers(codes + (self._least[number] - 1), codes == 0, types[number]))
        return columns[::-1]


def _packed_column(states: Sequence[GroupState]) -> int | None:
    """The only column that is added up, if the other states are counts, and no state has a condition."""
    columns = {state.values for state in states if state.function == "sum"}
    plain = all(state.function in ("sum", "count") and state.condition is None for state in states)
    return columns.pop() if plain and len(columns) == 1 else None


def _product(sizes: Sequence[int]) -> int:
    return int(np.prod(np.array(sizes, dtype=object)))


def _filled(size: int, number: int) -> Words:
    """An array of this number. Zeros take memory only where they are written to."""
    return np.full(size, number) if number else np.zeros(size, np.int64)


def _common_codes(least: int, size: int, other_least: int, other_size: int) -> list[tuple[slice, slice]]:
    """The codes of the keys that two domains have, in one and in the other: runs of neighbours. Code 0 is null."""
    if least == other_least:
        both = slice(min(size, other_size))
        return [(both, both)]
    ahead = other_least - least
    first, end = max(1, 1 + ahead), min(size, other_size + ahead)
    null, known = slice(1), slice(first, max(first, end))
    return [(null, null), (known, slice(known.start - ahead, known.stop - ahead))]


def _ends_of_slices(key: GroupKey, column: pa.Array, bound: _Bounds) -> list[int] | None:
    """The positions at which the next slice of ascending times begins; None for many slices, and for other keys."""
    if key.size is None or bound[1] - bound[0] > _FEW:
        return None
    numbers = values(column)
    begins = [key.origin + key.size * number for number in range(bound[0] + 1, bound[1] + 1)]
    return [int(at) for at in np.searchsorted(numbers, np.array(begins, numbers.dtype))]


def _codes(key: GroupKey, column: pa.Array, least: int, base: int) -> Words:
    """The keys as distances from `least` - 1, in a new array; nulls are 0. `base` is added. Their bounds fit."""
    numbers, size = values(column), key.size or 1
    plain = key.size is None and not column.null_count
    origin = key.origin + size * (least - 1) - (base if plain else 0)
    codes: Words = np.subtract(numbers, origin, dtype=np.int64, casting="unsafe")
    if plain:
        return codes
    if key.size is None:
        codes[flags(column.is_null())] = 0
    else:
        codes //= size
    if base:
        codes += base
    return codes


def _key_bounds(key: GroupKey, bounds: _Bounds) -> _Bounds:
    """The least and the greatest value of a key, whose column has these. There is no room for slices whose times are
    too far away.
    """
    least, most = bounds
    if key.size is None:
        return least, most
    if max(-least, most) + abs(key.origin) + key.size > _WORD:
        return -_WORD - 1, _WORD + 1
    return (least - key.origin) // key.size, (most - key.origin) // key.size


def _is_ascending(column: pa.Array) -> bool:
    numbers = values(column)
    return all(bool(np.all(some[1:] >= some[:-1])) for some in (numbers[:_FIRST_LOOK], numbers))


def _ends(column: pa.Array) -> _Bounds:
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

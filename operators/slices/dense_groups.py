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
_IDENTITY: Final = {"sum": 0, "min": np.iinfo(np.int64).max, "max": np.iinfo(np.int64).min}
_JOINED: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A state of groups: of the values of the input's column `values`, or of all rows, where the column `condition` is
    true, if there is one.
    """

    function: GroupFunction
    values: int | None
    condition: int | None


class DenseGroups:
    """Groups by the first `keys` columns, of which there is at least one. There are at most `room` places for
    groups: a place for each combination of keys between the least and the greatest ones, and of nulls.
    """

    def __init__(self, keys: int, states: Sequence[GroupState], schema: pa.Schema, room: int) -> None:
        self._keys = keys
        self._states = states
        self._schema = schema
        self._room = room
        self._domain: _Domain | None = None
        self._rows = np.zeros(0, np.int64)
        self._valid: dict[tuple[int | None, int | None], Words] = {}
        self._values: dict[int, Words] = {}
        self._bound = self._end = 0

    def add(self, block: pa.RecordBatch) -> bool:
        """Count the rows of the block, of which there is at least one. False, and nothing is counted, where there is no
        room for them beside the groups that are there.
        """
        columns = block.columns[: self._keys]
        bounds = [_bounds(column) for column in columns]
        bound = self._bound + max((self._largest(block, state) for state in self._states), default=0) * block.num_rows
        if bound >= _WORD:
            return False
        if self._domain is None:
            self._domain = _Domain.over(bounds, self._room)
            if self._domain is None:
                return False
            self._rows = np.zeros(self._domain.size, np.int64)
        elif not self._domain.has(bounds):
            return False
        self._bound = bound
        self._end = max(self._end, self._domain.end(bounds[0][1]))
        self._count(block, self._domain.positions(columns))
        return True

    def take(self) -> Iterator[pa.RecordBatch]:
        """The groups so far, in order of their keys. There are none afterwards."""
        domain, rows, valid, numbers = self._domain, self._rows, self._valid, self._values
        there = np.flatnonzero(rows[: self._end])
        self._domain, self._valid, self._values, self._bound, self._end = None, {}, {}, 0, 0
        if domain is None:
            return
        for begin in range(0, len(there), BLOCK_ROWS):
            at = there[begin : begin + BLOCK_ROWS]
            states = []
            for number, state in enumerate(self._states):
                counts = valid.get((state.values, state.condition), rows)[at]
                type_ = self._schema.field(self._keys + number).type
                totals = counts if state.function == "count" else numbers[number][at]
                states.append(_column(totals, (counts == 0) & (state.function != "count"), type_))
            keys = domain.keys(at, self._schema.types[: self._keys])
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
                identity = _IDENTITY[state.function]
                self._values[number] = np.full(len(self._rows), identity) if identity else np.zeros_like(self._rows)
            where, numbers = (at, column) if mask is None else (at[mask], column[mask])
            _JOINED[state.function].at(self._values[number], where, numbers)


class _Domain:
    """The possible combinations of keys: each key is at least `least`, and less than `least` + its size - 1."""

    def __init__(self, least: Sequence[int], sizes: Sequence[int]) -> None:
        self._least = least
        self._sizes = sizes
        self.size = int(np.prod(np.array(sizes, dtype=object)))

    @classmethod
    def over(cls, bounds: Sequence[tuple[int, int]], room: int) -> _Domain | None:
        """A domain that has all values within these bounds, and as many more of the first key as there is room for."""
        least = [bound[0] for bound in bounds]
        sizes = [most - first + 2 for first, most in bounds]
        others = int(np.prod(np.array(sizes[1:], dtype=object)))
        farthest = max(abs(number) for bound in bounds for number in bound)
        if sizes[0] * others > room or farthest > _WORD:
            return None
        return cls(least, [room // others, *sizes[1:]])

    def has(self, bounds: Sequence[tuple[int, int]]) -> bool:
        """Tests whether all values within these bounds are in the domain."""
        return all(
            first >= least and most - least < size - 1
            for (first, most), least, size in zip(bounds, self._least, self._sizes, strict=True)
        )

    def end(self, most: int) -> int:
        """The first position behind those of this number of the first key."""
        return (most - self._least[0] + 2) * (self.size // self._sizes[0])

    def positions(self, columns: Sequence[pa.Array]) -> Words:
        at: Words = np.zeros(0, np.int64)
        for number, (column, least, size) in enumerate(zip(columns, self._least, self._sizes, strict=True)):
            codes = values(column).astype(np.int64, copy=False) - (least - 1)
            if column.null_count:
                codes[flags(column.is_null())] = 0
            at = at * size + codes if number else codes
        return at

    def keys(self, at: Words, types: Sequence[pa.DataType]) -> list[pa.Array]:
        columns = []
        for least, size, type_ in zip(reversed(self._least), reversed(self._sizes), reversed(types), strict=True):
            at, codes = np.divmod(at, size)
            columns.append(_column(codes + (least - 1), codes == 0, type_))
        return columns[::-1]


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

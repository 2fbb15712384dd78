"""States of slices put together to those of windows, at a cost for each window that does not grow with its slices.

Counts and sums of integers and decimals are exact, so a window's is the difference of two running ones. Others have no
inverse, or other bits then: least and greatest values, truth values, sums of floats. They are put together as two
stacks do it. Slices are in blocks as long as a window. A window is in at most two blocks: it has the last rows of one
and the first rows of the next, and running results within blocks have both. A block begins at a multiple of the
window's length, so that bits depend on nothing but the window's slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, assert_never

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import Flags, Places, Values, Words, dtype_of, flags, values
from .blocks_of_slices import Blocks, any_sum
from .wide_sums import WORD, DecimalSums, decimal_words, decimals, validity

StateFunction = Literal["sum", "count", "min", "max", "bool_and", "bool_or"]
"""The aggregate that has made a state from rows."""


def obstacle(function: str, type_: pa.DataType) -> str | None:
    """The reason why states of this type cannot be put together here; None if they can."""
    match function:
        case "sum":
            known = kinds.is_decimal128(type_) or kinds.is_float64(type_)
        case "count":
            known = kinds.is_int64(type_)
        case "bool_and" | "bool_or":
            known = kinds.is_boolean(type_)
        case "min" | "max":
            known = kinds.is_boolean(type_) or dtype_of(type_) is not None
        case _:
            known = False
    return None if known else f"{function} of {type_} has no form in numbers"


@dataclass(frozen=True, kw_only=True, eq=False)
class SortedRows:
    """The rows of slices, sorted by group and slice: their positions, their slices, and whether a row is of the same
    group as the row before it. There is a row. Windows are `length` slices long.
    """

    order: Places
    slices: Words
    same: Flags
    length: int

    @cached_property
    def block(self) -> Words:
        """The number of the block that each row's slice is in."""
        return self.slices // self.length

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of neighbouring rows, each of one group."""
        begins = ~self.same
        begins[1:] |= self.block[1:] != self.block[:-1]
        return Blocks(np.flatnonzero(begins), len(begins))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """Windows as neighbouring sorted rows, `first` to before `end`, of which each has one. `start` is the slice that
    each window begins with.
    """

    first: Places
    end: Places
    start: Words


class StateJoin:
    """The states of one column. Where they do not fit, a window's may be too large for their type."""

    fits = True

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    def gives(self, type_: pa.DataType) -> bool:
        """Tests whether the joined states can be had as values of this type, without a check of each."""
        return bool(self.type.equals(type_))

    def of(self, frames: Frames, type_: pa.DataType) -> pa.Array:
        """The joined states of windows, of the states' type or another one that the join gives. They are right if the
        states fit.
        """
        raise NotImplementedError


class ExactSum(StateJoin):
    def __init__(self, column: pa.Array, order: Places) -> None:
        super().__init__(column.type)
        null, self._known = _nulls(column, order)
        low, high = decimal_words(column)
        self._sums = DecimalSums(low[order], high[order], null)
        self.fits = self._sums.fits

    def gives(self, type_: pa.DataType) -> bool:
        return super().gives(type_) or (kinds.is_int64(type_) and self._sums.narrow and self.type.scale == 0)

    def of(self, frames: Frames, type_: pa.DataType) -> pa.Array:
        low, high = self._sums.between(frames.first, frames.end)
        none = self._known.none(frames)
        if kinds.is_int64(type_):
            return pa.Array.from_buffers(type_, len(low), [validity(none), pa.py_buffer(low)])
        return decimals(low, high, none, type_)


class Count(StateJoin):
    def __init__(self, column: pa.Array, order: Places) -> None:
        super().__init__(column.type)
        counts = values(column.fill_null(0) if column.null_count else column)[order]
        self.fits = not len(counts) or int(counts.max()) * len(counts) < WORD
        self._before = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self._before[1:])

    def of(self, frames: Frames, _: pa.DataType) -> pa.Array:
        return pa.array(self._before[frames.end] - self._before[frames.first])


class InBlocks(StateJoin):
    """A function without an inverse. `identity` changes no value that it is joined with."""

    def __init__(self, function: np.ufunc, column: pa.Array, rows: SortedRows) -> None:
        super().__init__(column.type)
        self._function = function
        null, self._known = _nulls(column, rows.order)
        numbers = (values(column) if function is np.add else _comparable(column))[rows.order]
        identity = identity_of(function, numbers)
        if null is not None:
            numbers[null] = identity
        self._rows = rows
        self._begun = rows.blocks.from_first(function, numbers)
        self._left = rows.blocks.to_last(function, numbers)
        self._identity = numbers.dtype.type(identity)

    @any_sum
    def of(self, frames: Frames, type_: pa.DataType) -> pa.Array:
        first, last, block = frames.first, frames.end - 1, frames.start // self._rows.length
        ending = np.where(self._rows.block[first] == block, self._left[first], self._identity)
        beginning = np.where(self._rows.block[last] != block, self._begun[last], self._identity)
        return _column(self._function(ending, beginning), self._known.none(frames), type_)


def join_states(functions: Sequence[StateFunction], columns: Sequence[pa.Array], rows: SortedRows) -> list[StateJoin]:
    """The joins of the columns' states, in order."""
    return [_join(function, column, rows) for function, column in zip(functions, columns, strict=True)]


def _join(function: StateFunction, column: pa.Array, rows: SortedRows) -> StateJoin:
    match function:
        case "count":
            return Count(column, rows.order)
        case "sum" if kinds.is_decimal(column.type):
            return ExactSum(column, rows.order)
        case "sum":
            return InBlocks(np.add, column, rows)
        case "min" | "bool_and":
            return InBlocks(np.minimum, column, rows)
        case "max" | "bool_or":
            return InBlocks(np.maximum, column, rows)
        case _:
            assert_never(function)


class _Known:
    """The numbers of values that are not null, up to each row; None where no value is null."""

    def __init__(self, null: Flags | None) -> None:
        self._before = None if null is None else np.concatenate(([0], np.cumsum(~null)))

    def none(self, frames: Frames) -> Flags:
        """True for windows of which all values are null."""
        if self._before is None:
            return np.zeros(len(frames.first), np.bool_)
        empty: Flags = self._before[frames.end] == self._before[frames.first]
        return empty


def _nulls(column: pa.Array, order: Places) -> tuple[Flags | None, _Known]:
    null = flags(column.is_null())[order] if column.null_count else None
    return null, _Known(null)


def identity_of(function: np.ufunc, numbers: Values) -> Any:
    """The value that changes no value with which the function joins it."""
    if function is np.add:
        return -0.0
    limits = np.iinfo(numbers.dtype)
    return limits.max if function is np.minimum else limits.min


def _comparable(column: pa.Array) -> Values:
    return in_order(flags(column) if kinds.is_boolean(column.type) else values(column))


def in_order(numbers: Values) -> Values:
    """Numbers or truth values as whole numbers in their order: NaN is above all others, and -0.0 is below 0.0."""
    if numbers.dtype.kind == "b":
        return numbers.astype(np.int8)
    if numbers.dtype.kind != "f":
        return numbers
    numbers = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers)
    return flipped(numbers.view(f"i{numbers.dtype.itemsize}"))


def flipped(words: Values) -> Values:
    """The words of floats as numbers in the floats' order, and such numbers as words."""
    numbers: Values = words ^ ((words >> (8 * words.dtype.itemsize - 1)) & np.iinfo(words.dtype).max)
    return numbers


def _column(numbers: Values, null: Flags, type_: pa.DataType) -> pa.Array:
    """An array of joined numbers."""
    if kinds.is_boolean(type_):
        return pa.array(numbers.astype(np.bool_), mask=null)
    if kinds.is_decimal(type_):
        return decimals(numbers, numbers >> 63, null, type_)
    if kinds.is_floating(type_) and numbers.dtype.kind == "i":
        numbers = flipped(numbers)
    return pa.Array.from_buffers(type_, len(numbers), [validity(null), pa.py_buffer(np.ascontiguousarray(numbers))])

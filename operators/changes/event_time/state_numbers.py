"""States of aggregates as arrays of numbers, which are put together value by value.

A state of one column is a few *parts*: arrays of one length, each with an associative function that joins two of its
values. A sum has its words of 32 bits, which cannot overflow while fewer than 2**31 are added; a value that may be null
has a part that says whether there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...slices.state_joins import StateFunction, flipped, identity_of, in_order
from ..values.limbs import split, to_decimal, to_int64
from ..values.order_codes import codes_of
from ..values.value_columns import ArrowColumn, Column, FixedColumn, Mask, column, fixed

Values: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Kept: TypeAlias = Sequence[Values | ArrowColumn]
"""States of one column as they are kept."""


@dataclass(frozen=True, slots=True)
class Part:
    """The function that joins two values of a part. `identity` changes no value that it is joined with."""

    function: np.ufunc
    identity: Any


PRESENT: Final = Part(np.logical_or, False)
"""The part that is true where there is a value."""


class StateNumbers(ABC):
    """The states of one column."""

    parts: Sequence[Part]

    @abstractmethod
    def kept(self, states: Column) -> Kept:
        """States of slices, as they are kept."""

    def numbers(self, kept: Kept) -> Sequence[Values]:
        """The parts. They can be joined with each other, and with no parts of other states."""
        return [part for part in kept if not isinstance(part, ArrowColumn)]

    def joined(self, numbers: Sequence[Values], kept: Kept, known: Sequence[Values]) -> Kept:  # noqa: ARG002 - most numbers are the states
        """States as they are kept, from parts that are joined from the `known` parts of `kept`."""
        return numbers

    @abstractmethod
    def column(self, kept: Kept) -> Column:
        """The states as a column of their type. Raises `TooLarge` for a sum that the type cannot hold."""


class Counts(StateNumbers):
    parts = (Part(np.add, 0),)

    def kept(self, states: Column) -> Kept:
        return [_fixed(states).values]

    def column(self, kept: Kept) -> Column:
        (counts,) = self.numbers(kept)
        return FixedColumn(counts)


class ExactSums(StateNumbers):
    """Sums of integers or decimals. Words of integers are two: there are none of 64 bits beyond these."""

    def __init__(self, type_: pa.DataType, plan_path: str) -> None:
        self._type = type_
        self._plan_path = plan_path
        self._words = 4 if kinds.is_decimal(type_) else 2
        self.parts = (*[Part(np.add, 0)] * self._words, PRESENT)

    def kept(self, states: Column) -> Kept:
        return [*split(states)[: self._words], _present(states)]

    def column(self, kept: Kept) -> Column:
        *words, present = self.numbers(kept)
        if kinds.is_decimal(self._type):
            return column(to_decimal(np.stack(words, axis=1), ~present, self._type, self._plan_path))
        sums = np.stack([*words, np.zeros_like(words[0])], axis=1)
        return FixedColumn(to_int64(sums, self._plan_path), _nulls(present))


class FloatSums(StateNumbers):
    parts = (Part(np.add, -0.0), PRESENT)

    def kept(self, states: Column) -> Kept:
        present = _present(states)
        return [np.where(present, _fixed(states).values, -0.0), present]

    def column(self, kept: Kept) -> Column:
        sums, present = self.numbers(kept)
        return FixedColumn(np.where(present, sums, 0.0) + 0.0, _nulls(present))


class ExtremeNumbers(StateNumbers):
    """Least or greatest values of a type of fixed width: as whole numbers in the order of the values."""

    def __init__(self, type_: pa.DataType, function: np.ufunc) -> None:
        values = _fixed(column(pa.nulls(1, type_))).values
        self._dtype = values.dtype
        self.parts = (Part(function, identity_of(function, in_order(values))), PRESENT)

    def kept(self, states: Column) -> Kept:
        present = _present(states)
        return [np.where(present, in_order(_fixed(states).values), self.parts[0].identity), present]

    def column(self, kept: Kept) -> Column:
        numbers, present = self.numbers(kept)
        values = flipped(numbers).view(self._dtype) if self._dtype.kind == "f" else numbers.astype(self._dtype)
        return FixedColumn(np.where(present, values, self._dtype.type(0)), _nulls(present))


class ExtremeValues(StateNumbers):
    """Least or greatest values of another type: their numbers are ranks among the values that are joined."""

    def __init__(self, function: np.ufunc) -> None:
        identity = np.iinfo(np.int64).max if function is np.minimum else np.iinfo(np.int64).min
        self.parts = (Part(function, identity), PRESENT)

    def kept(self, states: Column) -> Kept:
        assert isinstance(states, ArrowColumn)
        return [states]

    def numbers(self, kept: Kept) -> Sequence[Values]:
        (states,) = kept
        assert isinstance(states, ArrowColumn)
        present = _present(states)
        ranks = codes_of(states, descending=False, nulls_first=False)[-1]
        return [np.where(present, ranks.astype(np.int64), self.parts[0].identity), present]

    def joined(self, numbers: Sequence[Values], kept: Kept, known: Sequence[Values]) -> Kept:
        (states,) = kept
        assert isinstance(states, ArrowColumn)
        (ranks, present), (of_states, there) = numbers, known
        at = np.flatnonzero(there)
        holders = np.zeros(len(states) + 1, dtype=np.int64)  # a rank is at most the number of the states
        holders[of_states[at]] = at
        positions = pa.array(holders[np.where(present, ranks, 0)], mask=~present)
        return [ArrowColumn(pc.take(states.array, positions))]

    def column(self, kept: Kept) -> Column:
        (states,) = kept
        assert isinstance(states, ArrowColumn)
        return states


def state_numbers(function: StateFunction, type_: pa.DataType, plan_path: str) -> StateNumbers:
    """The states that a function has made, of this type."""
    match function:
        case "count":
            return Counts()
        case "sum" if kinds.is_floating(type_):
            return FloatSums()
        case "sum":
            return ExactSums(type_, plan_path)
        case "min" | "bool_and":
            return _extremes(type_, np.minimum)
        case "max" | "bool_or":
            return _extremes(type_, np.maximum)
        case _:
            assert_never(function)


def _extremes(type_: pa.DataType, function: np.ufunc) -> StateNumbers:
    return ExtremeNumbers(type_, function) if fixed(type_) else ExtremeValues(function)


def _fixed(states: Column) -> FixedColumn:
    assert isinstance(states, FixedColumn)
    return states


def _present(states: Column) -> Mask:
    nulls = states.nulls()
    return np.ones(len(states), dtype=np.bool_) if nulls is None else ~nulls


def _nulls(present: Mask) -> Mask | None:
    return None if present.all() else ~present

"""Group: counts, exact sums, least and greatest values of groups, updated as rows come and go.

Confluent. State: for each group the running numbers; for each least or greatest value the group's different values, in
order; and the rows that were given out. The cost of a change depends on the values that it touches, and not on the size
of its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ...proto.errors import ExecutionError
from ..core.interrupts import beside, look
from .change_operator import Kept
from .event_time.floor import Floor
from .event_time.forgetting import Forgetting
from .kept.arrangement import Arrangement
from .kept.present import sums_at
from .keyed_operator import Answer, Keyed, together
from .values.change import Change, Numbers, Rounds, has_large_weights
from .values.consolidate import consolidate
from .values.extremes import Extremes
from .values.limbs import TooLarge, limbs_of, split, to_decimal, to_int64
from .values.rows import Rows
from .values.value_columns import Column, FixedColumn, Index, column


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows, or of rows with a value in this column."""

    column: int | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column of integers or decimals: an int64 or a decimal of 38 digits, null where there is no value."""

    column: int


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or the greatest value of a column, null where there is none."""

    column: int
    greatest: bool


GroupMeasure: TypeAlias = Count | Sum | Extreme


class Group(Keyed):
    """The operator. It gives one row for each key that has rows: the key, then a value for each measure, in the types
    of `schema`. Groups below the `floor`, whose column is a number of the key's columns, are let go.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        key: Sequence[int],
        measures: Sequence[GroupMeasure],
        schema: pa.Schema,
        *,
        plan_path: str,
        depth: int = 0,
        always: bool = False,
        floor: Floor | None = None,
    ) -> None:
        super().__init__(input_schema, key, schema, depth=depth, always=always)
        self._always = always
        self._plan_path = plan_path
        self._measures = tuple(measures)
        self._types = schema.types[len(self._key) :]
        self._key_schema = pa.schema([input_schema.field(at) for at in self._key])
        self._width = 1 + sum(_numbers(measure, input_schema) for measure in measures)
        self._tallies = Arrangement(self._key_schema.types, range(len(self._key)), depth=depth, width=self._width)
        self._extremes = {
            at: Extremes(input_schema, self._key, measure.column, greatest=measure.greatest, depth=depth)
            for at, measure in enumerate(measures)
            if isinstance(measure, Extreme)
        }
        if floor is not None:
            kept = (self._given, self._tallies, *(extremes.values for extremes in self._extremes.values()))
            self.forgetting = (Forgetting(*((rows, floor.column) for rows in kept), floor=floor),)

    def kept(self) -> Iterable[Kept]:
        yield from super().kept()
        yield Kept("tallies", self._tallies, self._key_schema)
        for at, extremes in self._extremes.items():
            yield Kept(f"values-{at}", extremes.values, extremes.schema)

    def _absorb(self, change: Change) -> None:
        if any(isinstance(measure, Sum) for measure in self._measures) and has_large_weights(change):
            change = consolidate(change)
            if has_large_weights(change):
                sentence = f"{self._plan_path}: a row with 2**31 copies or more cannot be summed"
                raise ExecutionError(sentence, reason="OVERFLOW")
        keys = change.rows.select(self._key)
        numbers = [change.weights[:, None]]
        for measure in self._measures:
            look()
            match measure:
                case Count(column=at):
                    if at is not None:
                        numbers.append((change.weights * _there(change.rows.columns[at]))[:, None])
                case Sum(column=at):
                    value = change.rows.columns[at]
                    numbers.append((change.weights * _there(value))[:, None])
                    numbers.append(beside(partial(_times, value, change.weights), len(change)))
                case Extreme():
                    pass
                case _:
                    assert_never(measure)
        matrix = numbers[0][:, 0]
        if len(numbers) > 1:
            matrix = beside(lambda: np.concatenate(numbers, axis=1), len(change))
        self._tallies.insert_numbers(keys, matrix, change.rounds, keys)
        for extremes in self._extremes.values():
            extremes.insert(change, keys)

    def _sizes(self, keys: Rows) -> Numbers | None:
        sizes = (super()._sizes(keys), *(extremes.sizes(keys) for extremes in self._extremes.values()))
        known = [some for some in sizes if some is not None]
        return np.add.reduce(known) if known else None

    def _answer(self, keys: Rows, rounds: Rounds) -> Answer:
        tallies = self._tallies.held(keys, rounds, rows=False)
        sums = sums_at(tallies.now, (), len(keys)).reshape(len(keys), self._width)
        asked = np.arange(len(keys)) if self._always else np.flatnonzero(sums[:, 0] > 0)
        kept = sums if len(asked) == len(keys) else beside(lambda: sums.take(asked, axis=0), len(asked))
        history = [tallies.history]
        columns: list[Column] = []
        position = 1
        for at, (measure, type_) in enumerate(zip(self._measures, self._types, strict=True)):
            match measure:
                case Count(column=None):
                    columns.append(FixedColumn(kept[:, 0]))
                case Count():
                    columns.append(FixedColumn(kept[:, position]))
                case Sum():
                    width = _numbers(measure, self._input_schema)
                    columns.append(self._sum(kept[:, position : position + width], type_, keys, asked))
                case Extreme():
                    values, entries = self._extremes[at].of(keys.take(asked), rounds)
                    columns.append(values)
                    history.append((asked[entries[0]], entries[1]))
                case _:
                    assert_never(measure)
            position += _numbers(measure, self._input_schema)
        return Answer(asked, Rows(columns, len(asked)), np.ones(len(asked), dtype=np.int64), together(history))

    def _sum(self, numbers: Numbers, type_: pa.DataType, keys: Rows, asked: Index) -> Column:
        try:
            return beside(lambda: self._summed(numbers, type_), len(numbers))
        except TooLarge as error:
            if not self._key:
                raise
            raise error.of(keys.described(self._key_schema, int(asked[error.at]))) from None

    def _summed(self, numbers: Numbers, type_: pa.DataType) -> Column:
        nulls = numbers[:, 0] <= 0
        if kinds.is_decimal(type_):
            return column(to_decimal(numbers[:, 1:], nulls, type_, self._plan_path))
        values = to_int64(numbers[:, 1:], self._plan_path)
        return FixedColumn(np.where(nulls, 0, values), nulls) if nulls.any() else FixedColumn(values)


def _numbers(measure: GroupMeasure, schema: pa.Schema) -> int:
    match measure:
        case Count(column=None) | Extreme():
            return 0
        case Count():
            return 1
        case Sum(column=at):
            return 1 + limbs_of(schema.field(at).type)
        case _:
            assert_never(measure)


def _times(value: Column, weights: Numbers) -> Numbers:
    limbs: Numbers = split(value) * weights[:, None]
    return limbs


def _there(value: Column) -> Numbers:
    nulls = value.nulls()
    return np.ones(len(value), dtype=np.int64) if nulls is None else (~nulls).astype(np.int64)

"""Group: counts, exact sums, least and greatest values of groups, updated as rows come and go.

Confluent. State: for each group the running numbers; for each least or greatest value the group's different values, in
order; and the rows that were given out. The cost of a change depends on the values that it touches, and not on the size
of its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ...proto.errors import ExecutionError
from ..core.interrupts import beside, look
from ..core.operator import UNBOUNDED, StateWriter
from .change_operator import Kept
from .event_time.floor import Floor, floor_of_slices
from .event_time.forgetting import Forgetting
from .event_time.timed_rows import TimedRows, numbers_of
from .event_time.window_closing import IDLE, MOST, NEVER, SliceClosing
from .kept.arrangement import Arrangement
from .kept.held_state import SettledRuns
from .kept.matching_entries import History
from .kept.present import sums_at
from .kept.state_format import VERSION
from .keyed_operator import Answer, Keyed, together
from .values.change import Change, Numbers, Rounds, all_one, has_large_weights
from .values.consolidate import consolidate
from .values.dense_sums import DenseSums
from .values.extremes import Extremes
from .values.limbs import TooLarge, limbs_of, split, to_decimal, to_int64
from .values.portions import portions_with_room
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

_GIVEN_ONCE: Final = 2
"""The version of a checkpoint whose open slices were not given out. In the first one they were, as far as they went."""
_COPIES: Final = 2
"""The copies of a key's values that are in memory while they are put in order."""


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
        self._tallies = self._new_tallies(depth)
        self._extremes = {
            at: Extremes(input_schema, self._key, measure.column, greatest=measure.greatest, depth=depth)
            for at, measure in enumerate(measures)
            if isinstance(measure, Extreme)
        }
        if floor is not None:
            kept = (self._given, self._tallies, *(extremes.values for extremes in self._extremes.values()))
            self.forgetting = (Forgetting(*((rows, floor.column) for rows in kept), floor=floor),)

    def _new_tallies(self, depth: int) -> Arrangement:
        """The place of the groups' numbers, empty."""
        return Arrangement(self._key_schema.types, range(len(self._key)), depth=depth, width=self._width)

    def kept(self) -> Iterable[Kept]:
        yield from super().kept()
        yield Kept("tallies", self._tallies, self._key_schema)
        for at, extremes in self._extremes.items():
            yield Kept(f"values-{at}", extremes.values, extremes.schema)

    def _absorb(self, change: Change) -> None:
        change = self._summable(change)
        keys = change.rows.select(self._key)
        numbers = self._numbers_of(change)
        matrix = numbers[0] if len(numbers) == 1 else beside(partial(_as_matrix, numbers), len(change))
        self._tallies.insert_numbers(keys, matrix, change.rounds, keys)
        self._keep_values(change, keys)

    def _summable(self, change: Change) -> Change:
        """The change, consolidated if a row has too many copies to be summed. An error if it still has."""
        if any(isinstance(measure, Sum) for measure in self._measures) and has_large_weights(change):
            change = consolidate(change)
            if has_large_weights(change):
                sentence = f"{self._plan_path}: a row with 2**31 copies or more cannot be summed"
                raise ExecutionError(sentence, reason="OVERFLOW")
        return change

    def _numbers_of(self, change: Change) -> list[Numbers]:
        """The numbers of the rows that tallies sum: their weights, then those of each measure."""
        numbers = [change.weights]
        for measure in self._measures:
            look()
            match measure:
                case Count(column=at):
                    if at is not None:
                        numbers.append(_there(change.rows.columns[at], change.weights))
                case Sum(column=at):
                    value = change.rows.columns[at]
                    numbers.append(_there(value, change.weights))
                    numbers.extend(beside(partial(_times, value, change.weights), len(change)))
                case Extreme():
                    pass
                case _:
                    assert_never(measure)
        return numbers

    def _keep_values(self, change: Change, keys: Rows) -> None:
        """Keep the values that least and greatest values are chosen from."""
        for extremes in self._extremes.values():
            extremes.insert(change, keys)

    def _sizes(self, keys: Rows) -> Numbers | None:
        sizes = (super()._sizes(keys), *(extremes.sizes(keys) for extremes in self._extremes.values()))
        known = [some for some in sizes if some is not None]
        return np.add.reduce(known) if known else None

    def _answer(self, keys: Rows, rounds: Rounds) -> Answer:
        tallies = self._tallies.held(keys, rounds, rows=False)
        return self._answered(keys, sums_at(tallies.now, (), len(keys)), rounds, tallies.history)

    def _answered(self, keys: Rows, sums: Numbers, rounds: Rounds, of_sums: History) -> Answer:
        """The answer for keys whose numbers are at hand, with the history that the numbers have."""
        sums = sums.reshape(len(keys), self._width)
        asked = np.arange(len(keys)) if self._always else np.flatnonzero(sums[:, 0] > 0)
        kept = sums if len(asked) == len(keys) else beside(lambda: sums.take(asked, axis=0), len(asked))
        history = [of_sums]
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


class GroupSlices(Group):
    """Groups whose first key is the number of a slice of final windows, which end by `closing`. A group is given out
    once, when no further row on time is in its slice, and costs nothing but its sums until then. State: the numbers of
    groups of open slices.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        key: Sequence[int],
        measures: Sequence[GroupMeasure],
        schema: pa.Schema,
        closing: SliceClosing,
        *,
        plan_path: str,
    ) -> None:
        super().__init__(input_schema, key, measures, schema, plan_path=plan_path)
        self._closing = closing
        self._sums = DenseSums(self._width)
        """Numbers that are not among the tallies yet."""
        kept = (self._given, *(extremes.values for extremes in self._extremes.values()))
        self.forgetting = (Forgetting(*((rows, 0) for rows in kept), floor=floor_of_slices(closing)),)

    def _new_tallies(self, depth: int) -> TimedRows:  # noqa: ARG002 - slices of final windows are outside of loops
        self._timed = TimedRows(self._key_schema.types, self._width)
        return self._timed

    @classmethod
    def state_name(cls) -> str:
        """That of the operator which kept the same groups in earlier versions."""
        return Group.state_name()

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._sums.nbytes

    @property
    def touched(self) -> int:
        return super().touched + self._sums.touched

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        parts = [item for item in self._agenda.take(rounds) if isinstance(item, Change)]
        self._absorb_all(parts)
        return iter(())

    def advance(self, watermark: int | None) -> Iterable[Change]:
        end = self._end_of_closed(watermark)
        if end is not None:
            yield from self._closed(end)
        yield from super().advance(watermark)

    def kept(self) -> Iterable[Kept]:
        for kept in super().kept():
            yield kept._replace(version=_GIVEN_ONCE, earlier=(VERSION,)) if kept.name == "tallies" else kept

    def save(self, state: StateWriter) -> None:
        if not isinstance(state, SettledRuns):
            self._settle_sums()
            self._timed.cut()  # a checkpoint does not say which slices are closed
        super().save(state)

    def _absorb(self, change: Change) -> None:
        change = self._summable(change)
        if not len(change):
            return
        keys, numbers = change.rows.select(self._key), self._numbers_of(change)
        there = keys.without_nulls()
        if there is None:
            self._add(keys, numbers)
        else:
            some, others = there.nonzero()[0], (~there).nonzero()[0]
            if len(some):
                self._add(_without_masks(keys.take(some)), [column.take(some) for column in numbers])
            if len(others):
                self._tally(keys.take(others), [column.take(others) for column in numbers])
        self._keep_values(change, keys)

    def _add(self, keys: Rows, numbers: Sequence[Numbers]) -> None:
        if not self._sums.add(keys, numbers):
            self._settle_sums()
            if not self._sums.add(keys, numbers):
                self._tally(keys, numbers)

    def _tally(self, keys: Rows, numbers: Sequence[Numbers]) -> None:
        self._timed.insert_numbers(keys, numbers[0] if self._width == 1 else _as_matrix(numbers), ())

    def _settle_sums(self) -> None:
        sums = self._sums.take()
        if sums is not None:
            self._timed.insert(sums)

    def _end_of_closed(self, watermark: int | None) -> int | None:
        """The end of the slices to which no row comes any more: those that a final window has. None if nothing is
        known.
        """
        if watermark is None or watermark == IDLE:
            return None
        if watermark == UNBOUNDED:
            return MOST + 1
        closing = self._closing
        return closing.last_closed(closing.ticks.at(watermark)) * closing.step + closing.length

    def _closed(self, end: int) -> Iterator[Change]:
        """The groups of slices before `end`, which are let go."""
        tallies = self._tallies_before(end)
        given_before = self._given_before(end)
        keys = tallies.rows
        if given_before is None and not len(keys):  # as in most small epochs
            self._timed.drop_below(end)
            return
        sizes = self._sizes(keys) if len(keys) else None
        portions: Iterable[Index] = (np.arange(len(keys)),) if sizes is None else portions_with_room(sizes, _COPIES)
        parts = [] if given_before is None else [given_before.negated()]
        for some in portions:
            change = self._answers(keys.take(some), tallies.weights.take(some, axis=0))
            if given_before is None:
                yield change
            else:
                parts.append(change)
        if given_before is not None:
            yield consolidate(Change.joined(parts))
        self._timed.drop_below(end)

    def _tallies_before(self, end: int) -> Change:
        sums = self._sums.take(end)
        if sums is not None and not self._timed.rows:
            return sums
        if sums is not None:
            self._timed.insert(sums)
        return self._timed.between(NEVER, end)

    def _answers(self, keys: Rows, sums: Numbers) -> Change:
        nothing: Index = np.empty(0, dtype=np.int64)
        answer = self._answered(keys, sums, (), (nothing, ()))
        return Change(keys.take(answer.asked).beside(answer.rows), answer.weights)

    def _given_before(self, end: int) -> Change | None:
        """The groups that were given out while their slice was open, before a checkpoint of an earlier version."""
        if not self._given.rows:
            return None
        groups = self._given.contents()
        before = np.flatnonzero(numbers_of(groups.rows) < end)
        if not len(before):
            return None
        self._given.retain(lambda rows: numbers_of(rows) >= end)
        return groups.take(before)


def _without_masks(rows: Rows) -> Rows:
    """Rows of which no value is null, in columns that say so."""
    columns = (FixedColumn(one.values) if isinstance(one, FixedColumn) else one for one in rows.columns)
    return Rows(tuple(columns), len(rows))


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


def _as_matrix(numbers: Sequence[Numbers]) -> Numbers:
    """The numbers of each row, in a row of a matrix."""
    return np.stack(numbers, axis=1)


def _times(value: Column, weights: Numbers) -> list[Numbers]:
    parts = split(value)
    return parts if all_one(weights) else [part * weights for part in parts]


def _there(value: Column, weights: Numbers) -> Numbers:
    """The weights, 0 where the value is null."""
    nulls = value.nulls()
    return weights if nulls is None else weights * ~nulls

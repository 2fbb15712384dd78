"""DenseSlices: rows grouped by the number of their slice and by keys.

The input's first columns are the slice's number and the keys: whole numbers, or values that are numbered. Where numbers
lie close together, groups are in arrays with a place for each possible group. From the block on that the arrays have no
room for, or where a group has few rows, DuckDB groups the rows.

Groups in parts may come out in several rows, each with the states of a part of a group's rows: `SlidingWindows` joins
them. Whole groups come out in one row each, with their measures. If there is no room for the first block, DuckDB groups
all rows as it does without this operator. If there is none for a later block, DuckDB joins the parts.

Order of parts: the groups of the arrays in order of their keys, then those of DuckDB: a function of the rows in their
order, and of the memory. Order of whole groups: that of their keys, nulls first, unless the first block's keys are too
far apart for arrays of any memory; then DuckDB's. So it does not depend on the memory. Numbered keys have the order of
their first rows; their arrays have the same room with any memory.
Empty input: no rows. Memory: a sixteenth of the instance's, and DuckDB's. Barrier: nothing is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ..core.blocks import BLOCK_ROWS, blocks
from ..core.operator import Operator, Stream
from ..core.streams import BatchStream
from ..duckdb.fragment import Fragment
from ..duckdb.instances import Instance
from ..duckdb.long_values import LongColumn
from ..duckdb.statement_inputs import StreamSource
from .group_positions import GroupKey
from .group_totals import GroupState
from .numbered_groups import NumberedGroups

_SHARE: Final = 16
_MOST_PLACES: Final = 1 << 23
_NUMBERED_PLACES: Final = 1 << 21
"""The words of arrays for groups by numbered keys, with any memory."""
_PARTS_AT_ONCE: Final = 1 << 18
"""Who reads parts puts their batches together, which costs a copy."""
_REDUCED: Final = 4
"""The arrays are worth it where a group has so many rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeGroups:
    """Statements that make whole groups, of the relation `in0`: `aggregate` of the rows, `ordered` the same in order of
    the keys, `total` of parts of groups with `states`, in that order, `values` of whole groups with `states`. None for
    `values` says that the states are the measures.
    """

    states: pa.Schema
    aggregate: str
    ordered: str
    total: str
    values: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOfSlices:
    """Groups by keys, of rows that have a value of the first one if it is sliced. `groups` is a statement that makes
    parts of them of the relation `in0`, in which all rows have one. No key of whole groups is numbered.
    """

    keys: tuple[GroupKey, ...]
    states: tuple[GroupState, ...]
    groups: str
    whole: WholeGroups | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedRows:
    """Rows of this schema. So many are in the arrays; `next` is the first block that they have no room for."""

    arrays: NumberedGroups
    rows: int
    next: pa.RecordBatch | None
    others: Iterator[pa.RecordBatch]
    schema: pa.Schema

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The rows that are not in the arrays."""
        return iter(()) if self.next is None else itertools.chain((self.next,), self.others)


class DenseSlices(Operator):
    """The operator. `schema` has the keys, then a column for each state; of whole groups, for each measure."""

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        groups: GroupsOfSlices,
        schema: pa.Schema,
        size_class: int,
        instance: Instance,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._groups = groups
        self._places = min(instance.settings.memory_limit // _SHARE // (16 * (len(groups.states) + 1)), _MOST_PLACES)
        numbered = {at: key.column for at, key in enumerate(groups.keys) if key.numbered}
        long = {column: LongColumn(compared=True, kept=True) for column in numbered.values()}
        if numbered:
            self._places = _NUMBERED_PLACES // (len(groups.states) + 1)
        self._plan_path = plan_path
        self._fragments: list[Fragment] = []

        def statement(sql: str, input_: pa.Schema, output: pa.Schema, *, row_wise: bool = False) -> Fragment:
            fragment = Fragment(
                sql,
                schema=output,
                instance=instance,
                streams=[StreamSource(relation="in0", schema=input_, size_class=size_class, long=long)],
                row_wise=row_wise,
                long=tuple(numbered),
                plan_path=plan_path,
            )
            self._fragments.append(fragment)
            return fragment

        whole = groups.whole
        try:
            self._states = schema if whole is None else whole.states
            self._in_duckdb = statement(groups.groups, input_schema, self._states)
            if whole is not None:
                self._aggregate = statement(whole.aggregate, input_schema, schema)
                self._ordered = statement(whole.ordered, input_schema, schema)
                self._total = statement(whole.total, self._states, schema)
                if whole.values is not None:
                    self._values = statement(whole.values, self._states, schema, row_wise=True)
        except BaseException:
            self.close()
            raise

    @property
    def plans(self) -> int:
        return sum(fragment.plans for fragment in self._fragments)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        self._interrupted = False
        return self._run(rows)

    def interrupt(self) -> None:
        super().interrupt()
        for fragment in self._fragments:
            fragment.interrupt()

    def close(self) -> None:
        for fragment in self._fragments:
            fragment.close()

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        with closing(rows):
            counted = self._counted(rows)
            if self._groups.whole is None:
                yield from self._parts(counted)
            else:
                yield from self._whole(self._groups.whole, counted)

    def _counted(self, rows: Stream) -> CountedRows:
        """Count the rows in arrays, as long as there is room."""
        arrays = NumberedGroups(self._groups.keys, self._groups.states, self._places)
        row_blocks = self._timed(blocks(rows, BLOCK_ROWS))
        counted = 0
        for block in row_blocks:
            self._stop_if_interrupted()
            if not arrays.add(block):
                return CountedRows(arrays=arrays, rows=counted, next=block, others=row_blocks, schema=rows.schema)
            counted += block.num_rows
        return CountedRows(arrays=arrays, rows=counted, next=None, others=row_blocks, schema=rows.schema)

    def _whole(self, whole: WholeGroups, counted: CountedRows) -> Generator[pa.RecordBatch]:
        """The whole groups of the rows."""
        arrays = counted.arrays
        if counted.next is not None and not counted.rows:
            are_near = arrays.would_fit(counted.next, _MOST_PLACES)
            aggregate = self._ordered if are_near else self._aggregate
            yield from aggregate.run([BatchStream(counted.schema, counted.rest())])
        elif counted.next is not None:
            yield from self._total.run([BatchStream(self._states, self._parts(counted))])
        elif whole.values is None:
            yield from arrays.take(self.schema)
        else:
            yield from self._values.run([BatchStream(self._states, arrays.take(self._states))])

    def _parts(self, counted: CountedRows) -> Generator[pa.RecordBatch]:
        """Parts of the groups of the rows. Whenever the arrays are full, their groups come out, and they begin anew."""
        arrays, rows, row_blocks = counted.arrays, counted.rows, counted.rest()
        for block in row_blocks:
            self._stop_if_interrupted()
            while not arrays.add(block):
                handed_out = 0
                for groups in arrays.take(self._states, _PARTS_AT_ONCE):
                    handed_out += groups.num_rows
                    yield groups
                if handed_out * _REDUCED >= rows:  # also where nothing was counted
                    rest = BatchStream(counted.schema, itertools.chain((block,), row_blocks))
                    yield from self._in_duckdb.run([rest])
                    return
                rows = 0
            rows += block.num_rows
        yield from arrays.take(self._states, _PARTS_AT_ONCE)

    def _timed(self, row_blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are in a slice, in the same blocks. None is empty."""
        key = self._groups.keys[0]
        for block in row_blocks:
            times = block.column(key.column)
            timed = block.filter(times.is_valid()) if key.size is not None and times.null_count else block
            if timed.num_rows:
                yield timed

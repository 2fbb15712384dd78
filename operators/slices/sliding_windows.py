"""SlidingWindows: windows of slices of time, from the groups of the slices.

The input has rows of a slice's number, keys, and states of aggregates; a group may have several rows of one slice. A
window has a row for each group of which it has a slice: its number, the group's keys, and the measures of the group's
joined states. Keys compare as in SQL: null equals null, NaN equals NaN, -0.0 equals 0.0. The keys handed out are those
of the group's first slice in the window.

A window costs the same, however many slices it has. Rows that take more than a share of the memory go to DuckDB, which
spills them. So do numbers that may be beyond 64 bits (sums: 38 digits); DuckDB says what is wrong with them. There a
window costs the logarithm of its slices.

Order: groups in the order of their keys' codes, then windows in the order of time; where DuckDB makes the windows, its
order. It is a function of the rows in their order, and of the memory. Empty input: no rows. Barrier: all input is read
before the first row comes out.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import take
from ..core.batches import batch_of, joined
from ..core.blocks import BLOCK_ROWS
from ..core.operator import Operator, Stream
from ..core.sizes import batch_bytes
from ..core.streams import BatchStream
from ..duckdb.fragment import Fragment
from ..duckdb.instances import Instance
from ..duckdb.long_values import LongColumn
from ..duckdb.statement_inputs import StreamSource
from .slice_runs import SliceRuns, can_number
from .state_joins import StateFunction, StateJoin, join_states
from .windows_in_arrays import WindowsInArrays

_SHARE: Final = 32
"""The rows take at most one part in so many of the memory. Their copies and running results take some times more."""
_MOST_BYTES: Final = 512 << 20
"""Texts of more bytes may not fit into one array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsOfSlices:
    """Windows of `length` slices, `step` slices apart, of groups by `keys` columns. `functions` made the states.

    `values` is a statement that makes the rows to hand out of the relation `in0`: a window's number, keys, joined
    states. Where it only casts states to the measures' types, the values are `plain`. `windows` makes the rows of the
    relation `in0` with the operator's input. Both see columns c0, c1, ... `long` are the columns of texts among the
    keys.
    """

    length: int
    step: int
    keys: int
    functions: tuple[StateFunction, ...]
    values: str
    plain: bool
    windows: str
    long: Mapping[int, LongColumn]


class SlidingWindows(Operator):
    """The operator. `schema` has the window's number, the keys, then a column for each measure."""

    def __init__(
        self,
        input_schema: pa.Schema,
        *,
        windows: WindowsOfSlices,
        schema: pa.Schema,
        size_class: int,
        instance: Instance,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._windows = windows
        self._most = min(instance.settings.memory_limit // _SHARE, _MOST_BYTES)
        self._plan_path = plan_path
        rows = StreamSource(relation="in0", schema=input_schema, size_class=size_class)
        self._in_duckdb = Fragment(
            windows.windows,
            schema=schema,
            instance=instance,
            streams=[replace(rows, long=windows.long)],
            long=tuple(windows.long),
            plan_path=plan_path,
        )
        try:
            self._values = Fragment(
                windows.values, schema=schema, instance=instance, streams=[rows], row_wise=True, plan_path=plan_path
            )
        except BaseException:
            self._in_duckdb.close()
            raise

    @property
    def plans(self) -> int:
        return self._in_duckdb.plans + self._values.plans

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        [rows] = inputs
        self._interrupted = False
        return self._run(rows)

    def interrupt(self) -> None:
        super().interrupt()
        self._values.interrupt()
        self._in_duckdb.interrupt()

    def close(self) -> None:
        self._values.close()
        self._in_duckdb.close()

    def _run(self, rows: Stream) -> Generator[pa.RecordBatch]:
        with closing(rows):
            held: list[pa.RecordBatch] = []
            size = 0
            for batch in rows:
                self._stop_if_interrupted()
                held.append(batch)
                size += batch_bytes(batch)
                if size > self._most:
                    break
            windows = self._windows_of(joined(held, rows.schema)) if size <= self._most else None
            if windows is None:
                windows = self._in_duckdb.run([BatchStream(rows.schema, itertools.chain(held, rows))])
            else:
                held.clear()
            yield from windows

    def _windows_of(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch] | None:
        """The windows that these rows make; None where DuckDB has to make them."""
        windows = self._windows
        if not rows.num_rows:
            return iter(())
        slices, *columns = rows.columns
        if not can_number(slices, windows.length, windows.step):
            return None
        keys, states = columns[: windows.keys], columns[windows.keys :]
        runs = SliceRuns(slices, keys, windows.length, windows.step)
        joins = join_states(windows.functions, states, runs.rows)
        if not all(join.fits for join in joins):
            return None
        types = self.schema.types[1 + windows.keys :]
        if windows.plain and all(join.gives(type_) for join, type_ in zip(joins, types, strict=True)):
            return self._batches(runs, keys, joins, self.schema)
        return self._values.run([BatchStream(rows.schema, self._batches(runs, keys, joins, rows.schema))])

    def of_groups(self, windows: WindowsInArrays, states: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows to hand out of these windows, instead of those of an input with these `states`."""
        types = zip(self.schema.types, states.types, strict=True)
        if self._windows.plain and all(type_.equals(own) or kinds.is_int64(type_) for type_, own in types):
            return windows.batches(self.schema)
        return self._values.run([BatchStream(states, windows.batches(states))])

    def _batches(
        self, runs: SliceRuns, keys: Sequence[pa.Array], joins: Sequence[StateJoin], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        types = schema.types[1 + len(keys) :]
        for numbers, frames in runs.frames(BLOCK_ROWS):
            self._stop_if_interrupted()
            first = pa.array(runs.rows.order[frames.first])
            states = (join.of(frames, type_) for join, type_ in zip(joins, types, strict=True))
            yield batch_of([pa.array(numbers), *(take(key, first) for key in keys), *states], len(numbers), schema)

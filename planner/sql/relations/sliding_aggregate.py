"""SlidingAggregate: rows grouped by slice and keys, then windows over the slices.

A window's row comes from the first slice of its group that the window has, so every row is computed once. Its measures
are joined from the slices' states by DuckDB's segment trees: a window of many slices costs the logarithm of their
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ... import ir
from ...ir.arrow_types import sql_type
from ..states import render_states, render_total, states_of
from ..table import Table, group_by, select_list
from ..writer import Writer

_RUN: Final = 1024
"""The most windows in one list. DuckDB holds the lists of 2,048 rows at a time."""


def select_sliding_aggregate(relation: ir.SlidingAggregate, table: Table, writer: Writer) -> str:
    keys = [writer.column(relation.slice), *(writer.column(key) for key in relation.keys)]
    states = [column for measure in relation.measures for column in render_states(measure, writer.scope)]
    slices = f"SELECT {select_list((*keys, *states))} FROM {table.item}{group_by(range(len(keys)))}"
    over = _Windows(relation.length, relation.step, len(relation.keys), writer)
    return over.select(writer.table(slices, len(keys) + len(states)), relation.measures)


def select_final_sliding_aggregate(
    relation: ir.FinalSlidingAggregate | ir.SlidingWindows, table: Table, writer: Writer
) -> str:
    return _Windows(relation.length, relation.step, relation.keys, writer).select(table, relation.measures)


class _Windows:
    """Windows of `length` slices, `step` slices apart, over a table of slices: the slice, `keys` columns, states. A
    group of keys may have several rows of one slice.
    """

    def __init__(self, length: int, step: int, keys: int, writer: Writer) -> None:
        self._length = length
        self._step = step
        self._keys = keys
        self._writer = writer

    def select(self, slices: Table, measures: Sequence[ir.Measure]) -> str:
        begun = self._begun(self._following(slices))
        number, slice_, *keys = begun.columns[: 2 + self._keys]
        states = begun.columns[2 + self._keys :]
        left = f"{number} * {self._step} + {self._length - 1} - {slice_}"
        frame = f"RANGE BETWEEN CURRENT ROW AND coalesce({left}, 0) FOLLOWING"
        columns = []
        for measure in measures:
            width = len(states_of(measure) or ())
            mine, states = states[:width], states[width:]
            columns.append(f"CAST({render_total(measure, mine, ' OVER w')} AS {sql_type(measure.type)})")
        over = f"WINDOW w AS ({_partition(keys)}ORDER BY {slice_} {frame})" if columns else ""
        select = f"SELECT {', '.join((number, *keys, *columns))} FROM {begun.item} {over}"
        windows = self._writer.table(select, 1 + self._keys + len(columns))
        return f"SELECT {', '.join(windows.columns)} FROM {windows.item} WHERE {windows.columns[0]} IS NOT NULL"

    def _following(self, slices: Table) -> Table:
        """The slices, each with the group's slice before it."""
        slice_, *keys = slices.columns[: 1 + self._keys]
        before = f"lag({slice_}) OVER ({_partition(keys)}ORDER BY {slice_})"
        return self._writer.table(f"SELECT {', '.join((*slices.columns, before))} FROM {slices.item}", slices.width + 1)

    def _begun(self, slices: Table) -> Table:
        """A row for each window that a slice is the first of: its number, the slice, the keys, the states. A slice that
        begins no window has a row without a number. A slice's states are in one of its rows, and null in the others.
        """
        slice_, *carried, before = slices.columns
        writer, step = self._writer, self._step
        first = floor_division(f"({slice_} - {self._length - step})", step)
        bounds = f"greatest({first}, {floor_division(before, step)} + 1), {floor_division(slice_, step)}"
        select = f"SELECT {', '.join((slice_, *carried))}, {bounds} FROM {slices.item}"
        bounded = writer.table(select, slices.width + 1)
        *own, first, last = bounded.columns
        if -(-self._length // step) > _RUN:
            runs = f"CASE WHEN {first} > {last} THEN [{first}] ELSE range({first}, {last} + 1, {_RUN}) END"
            cut = writer.table(
                f"SELECT {', '.join((*own, first, last))}, unnest({runs}) FROM {bounded.item}", len(own) + 3
            )
            *own, first, last, start = cut.columns
            end = f"least({last}, {start} + {_RUN - 1})"
        else:
            cut, start, end = bounded, first, last
        numbers = f"CASE WHEN {first} > {last} THEN [CAST(NULL AS BIGINT)] ELSE range({start}, {end} + 1) END"
        rows = writer.table(f"SELECT {', '.join((*own, first))}, unnest({numbers}) FROM {cut.item}", len(own) + 2)
        *own, first, number = rows.columns
        keys, states = own[: 1 + self._keys], own[1 + self._keys :]
        once = [f"CASE WHEN coalesce({number} = {first}, true) THEN {state} END" for state in states]
        return writer.table(f"SELECT {', '.join((number, *keys, *once))} FROM {rows.item}", len(own) + 1)


def floor_division(number: str, by: int) -> str:
    """The number divided by a positive one, rounded down."""
    return number if by == 1 else f"({number} // {by} - CAST({number} % {by} < 0 AS BIGINT))"


def _partition(keys: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(keys)} " if keys else ""

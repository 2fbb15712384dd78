"""Windows of a number of rows: the rows of a group of keys are numbered in the order of their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...operators.changes.event_time.window_closing import CountClosing
from .. import ir
from ..functions.added_calls import call
from ..ir import tree
from ..ir.building import INT64, columns, int64, project
from ..ir.visit import parts
from .running_windows import first_and_last, numbered_rows
from .sliced_windows import aggregate_by_mark, sliding_of

_ZERO: Final = int64(0)
_ONE: Final = int64(1)


def count_groups(windows: ir.TimeWindows, closing: CountClosing) -> ir.Relation:
    """The aggregate by window and keys. Rows of equal times are in the order of the columns that measures read."""
    below, plan_path = windows.input, windows.plan_path
    keyed = project(below, (*columns(below.schema), *windows.keys, windows.mark), plan_path)
    partitions, tick = columns(keyed.schema)[len(below.schema) : -1], columns(keyed.schema)[-1]
    ties = [ir.Field(index=at, type=below.schema[at]) for at in read_by_measures(windows)]
    numbered = numbered_rows(keyed, partitions, (tick, *ties))
    number = columns(numbered.schema)[-1]
    position = call("subtract", number, _ONE)
    rows = project(numbered, (*columns(keyed.schema), position), plan_path)
    over = replace(windows, input=rows, mark=tick, keys=partitions)
    return groups_by_position(over, closing, columns(rows.schema)[-1])


def groups_by_position(
    windows: ir.TimeWindows, closing: CountClosing, position: ir.Field, wanted: ir.Field | None = None
) -> ir.Relation:
    """The aggregate by window and keys, of rows that have the tick as their `mark`. `position` is a row's number within
    its group of keys, from 0 on. `wanted` is the number of a group's first windows that are wanted, the same in all
    rows of the group; without it all are.
    """
    plan_path = windows.plan_path
    size = int64(closing.size // closing.length)
    slice_ = call("time_slice", position, size, _ZERO)
    keys = windows.keys if wanted is None else (*windows.keys, wanted)
    measures = (*first_and_last(windows.mark, plan_path), *windows.measures)
    schema = (INT64, *(part.type for part in (*keys, *measures)))
    sliced = replace(windows, mark=slice_, keys=keys, measures=measures, schema=schema)
    groups: ir.Relation
    if closing.size == closing.slide:
        groups = aggregate_by_mark(sliced)
    else:
        groups = sliding_of(sliced, closing.length, closing.step)
    number, *others = columns(groups.schema)
    conditions = [call("gte", number, _ZERO)]
    if wanted is not None:
        conditions.append(call("lt", number, others[len(windows.keys)]))
    for condition in conditions:
        groups = ir.Filter(input=groups, condition=condition, schema=schema, plan_path=plan_path)
    first, last, *values = others[len(keys) :]
    bounds = (ir.Field(index=tick.index, type=INT64) for tick in (first, last))
    return project(groups, (*bounds, *others[: len(windows.keys)], *values), plan_path)


def read_by_measures(relation: ir.TimeWindows) -> tuple[int, ...]:
    """The columns of the input that measures read, from left to right."""
    fields = (part for measure in of_measures(relation) for part in parts(measure) if isinstance(part, ir.Field))
    return tuple(sorted({field.index for field in fields}))


def of_measures(relation: ir.TimeWindows) -> Sequence[ir.Expression]:
    """The expressions of the measures."""
    _, *expressions = tree.expressions(replace(relation, ends=None, keys=()))
    return expressions

"""Sessions: windows that begin with a row, and end when no row of their keys has come for a while."""

from __future__ import annotations

from typing import Final

from .. import ir
from ..functions.added_calls import call
from ..ir.building import INT64, columns, int64, project
from .running_windows import first_and_last, up_to_time

_ZERO: Final = int64(0)
_ONE: Final = int64(1)


def session_groups(windows: ir.TimeWindows, gap: int) -> ir.Project:
    """The aggregate by session and keys. A row counts 1 if it begins a session of its keys, and 0 if it does not; the
    sum of these up to a row, rows of the same time included, numbers the row's session.
    """
    below, plan_path = windows.input, windows.plan_path
    keyed = project(below, (*columns(below.schema), *windows.keys, windows.mark), plan_path)
    partitions, tick = columns(keyed.schema)[len(below.schema) : -1], columns(keyed.schema)[-1]
    before = up_to_time(keyed, "lag", tick, partitions, tick)
    since = call("subtract", tick, columns(before.schema)[-1])
    begins = ir.IfThen(clauses=((call("lt", since, int64(gap)), _ZERO),), otherwise=_ONE, type=INT64)
    counted = project(before, (*columns(keyed.schema), begins), plan_path)
    numbered = up_to_time(counted, "sum", columns(counted.schema)[-1], partitions, tick)
    own = (*first_and_last(tick, plan_path), *windows.measures)
    grouping = (columns(numbered.schema)[-1], *partitions)
    groups = ir.Aggregate(
        input=numbered,
        keys=grouping,
        grouping_sets=(tuple(range(len(grouping))),),
        measures=own,
        schema=(*(key.type for key in grouping), *(measure.type for measure in own)),
        plan_path=plan_path,
    )
    _, *key_columns = columns(groups.schema)[: len(grouping)]
    first, last, *values = columns(groups.schema)[len(grouping) :]
    bounds = (ir.Field(index=tick_column.index, type=INT64) for tick_column in (first, last))
    return project(groups, (*bounds, *key_columns, *values), plan_path)

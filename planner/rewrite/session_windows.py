"""Sessions: windows that begin with a row, and end when no row of their keys has come for a while."""

from __future__ import annotations

from .. import ir
from ..functions.added_calls import call, measure
from ..ir import types as t
from ..ir.building import INT64, columns, int64, project
from .running_windows import up_to_time


def session_groups(windows: ir.TimeWindows, gap: int) -> ir.Project:
    """The aggregate by session and keys. A row begins a session of its keys or has none; the last beginning up to a
    row, rows of the same time included, is that of the row's session.
    """
    below, plan_path = windows.input, windows.plan_path
    keyed = project(below, (*columns(below.schema), *windows.keys, windows.mark), plan_path)
    partitions, tick = columns(keyed.schema)[len(below.schema) : -1], columns(keyed.schema)[-1]
    before = up_to_time(keyed, "lag", tick, partitions, tick)
    since = call("subtract", tick, columns(before.schema)[-1])
    goes_on = call("lt", since, int64(gap))
    nothing = ir.Literal(value=None, type=t.nullable(INT64))
    begins = ir.IfThen(clauses=((goes_on, nothing),), otherwise=tick, type=t.nullable(INT64))
    begun = project(before, (*columns(keyed.schema), begins), plan_path)
    rows = up_to_time(begun, "last_not_null", columns(begun.schema)[-1], partitions, tick)
    own = (measure("max", tick, plan_path=plan_path), *windows.measures)
    grouping = (columns(rows.schema)[-1], *partitions)
    groups = ir.Aggregate(
        input=rows,
        keys=grouping,
        grouping_sets=(tuple(range(len(grouping))),),
        measures=own,
        schema=(*(key.type for key in grouping), *(measure.type for measure in own)),
        plan_path=plan_path,
    )
    first, *key_columns = columns(groups.schema)[: len(grouping)]
    last, *values = columns(groups.schema)[len(grouping) :]
    bounds = (ir.Field(index=tick_column.index, type=INT64) for tick_column in (first, last))
    return project(groups, (*bounds, *key_columns, *values), plan_path)

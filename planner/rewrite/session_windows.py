"""Sessions: windows that begin with a row, and end when no row of their keys has come for a while."""

from __future__ import annotations

from typing import Final

from .. import ir
from ..decode.emit import columns, project
from ..functions import bind, bind_scalar
from ..ir import types as t
from .bounds_of_rows import least_and_greatest

_NUMBER: Final = t.Integer(bits=64, nullable=False)
_ZERO: Final = ir.Literal(value=0, type=_NUMBER)
_ONE: Final = ir.Literal(value=1, type=_NUMBER)


def session_groups(windows: ir.TimeWindows, gap: int) -> ir.Project:
    """The aggregate by session and keys. A row counts 1 if it begins a session of its keys, and 0 if it does not; the
    sum of these up to a row, rows of the same time included, numbers the row's session.
    """
    below, plan_path = windows.input, windows.plan_path
    keyed = project(below, (*columns(below), *windows.keys, windows.mark), plan_path)
    partitions, tick = columns(keyed)[len(below.schema) : -1], columns(keyed)[-1]
    before = up_to_time(keyed, "lag", tick, partitions, tick)
    since = _call("subtract", tick, columns(before)[-1])
    begins = ir.IfThen(
        clauses=((_call("lt", since, ir.Literal(value=gap, type=_NUMBER)), _ZERO),), otherwise=_ONE, type=_NUMBER
    )
    counted = project(before, (*columns(keyed), begins), plan_path)
    numbered = up_to_time(counted, "sum", columns(counted)[-1], partitions, tick)
    own = (*least_and_greatest(tick, plan_path), *windows.measures)
    grouping = (columns(numbered)[-1], *partitions)
    groups = ir.Aggregate(
        input=numbered,
        keys=grouping,
        grouping_sets=(tuple(range(len(grouping))),),
        measures=own,
        schema=(*(key.type for key in grouping), *(measure.type for measure in own)),
        plan_path=plan_path,
    )
    _, *key_columns = columns(groups)[: len(grouping)]
    first, last, *values = columns(groups)[len(grouping) :]
    bounds = (ir.Field(index=tick_column.index, type=_NUMBER) for tick_column in (first, last))
    return project(groups, (*bounds, *key_columns, *values), plan_path)


def up_to_time(
    below: ir.Project, name: str, argument: ir.Field, partitions: tuple[ir.Field, ...], tick: ir.Field
) -> ir.Window:
    """The rows with a function over those of the same partition up to their time."""
    bound = bind(ir.FunctionKind.WINDOW, name, None, (argument,))
    call = ir.WindowCall(
        function=bound.function,
        arguments=(argument,),
        type=bound.type,
        partitions=partitions,
        sorts=(ir.SortKey(expression=tick, direction=ir.Direction.ASC_NULLS_LAST),),
        lower=ir.Bound(offset=None),
        upper=ir.Bound(offset=0),
        bounds=ir.BoundsKind.RANGE,
        options=bound.options,
        plan_path=below.plan_path,
    )
    return ir.Window(input=below, calls=(call,), schema=(*below.schema, call.type), plan_path=below.plan_path)


def _call(name: str, *arguments: ir.Expression) -> ir.Expression:
    return bind_scalar(name, None, arguments)

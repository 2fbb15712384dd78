"""Windows of a number of rows: the rows of a group of keys are numbered in the order of their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...operators.changes.event_time.window_closing import CountClosing
from .. import ir
from ..decode.emit import columns, project
from ..functions import bind, bind_scalar
from ..ir import tree
from ..ir import types as t
from ..ir.visit import parts
from .bounds_of_rows import least_and_greatest
from .sliced_windows import aggregate_by_mark, sliding_of

_NUMBER: Final = t.Integer(bits=64, nullable=False)
_ZERO: Final = ir.Literal(value=0, type=_NUMBER)
_ONE: Final = ir.Literal(value=1, type=_NUMBER)


def count_groups(windows: ir.TimeWindows, closing: CountClosing) -> ir.Relation:
    """The aggregate by window and keys. Rows of equal times are in the order of the columns that measures read."""
    below, plan_path = windows.input, windows.plan_path
    keyed = project(below, (*columns(below), *windows.keys, windows.mark), plan_path)
    partitions, tick = columns(keyed)[len(below.schema) : -1], columns(keyed)[-1]
    ties = [ir.Field(index=at, type=below.schema[at]) for at in read_by_measures(windows)]
    numbered = numbered_rows(keyed, partitions, (tick, *ties))
    number = columns(numbered)[-1]
    position = bind_scalar("subtract", None, (number, _ONE))
    rows = project(numbered, (*columns(keyed), position), plan_path)
    over = replace(windows, input=rows, mark=tick, keys=partitions)
    return groups_by_position(over, closing, columns(rows)[-1])


def groups_by_position(
    windows: ir.TimeWindows, closing: CountClosing, position: ir.Field, wanted: ir.Field | None = None
) -> ir.Relation:
    """The aggregate by window and keys, of rows that have the tick as their `mark`. `position` is a row's number within
    its group of keys, from 0 on. `wanted` is the number of a group's first windows that are wanted, the same in all
    rows of the group; without it all are.
    """
    plan_path = windows.plan_path
    size = ir.Literal(value=closing.size // closing.length, type=_NUMBER)
    slice_ = bind_scalar("time_slice", None, (position, size, _ZERO))
    keys = windows.keys if wanted is None else (*windows.keys, wanted)
    measures = (*least_and_greatest(windows.mark, plan_path), *windows.measures)
    schema = (_NUMBER, *(part.type for part in (*keys, *measures)))
    sliced = replace(windows, mark=slice_, keys=keys, measures=measures, schema=schema)
    groups: ir.Relation
    if closing.size == closing.slide:
        groups = aggregate_by_mark(sliced)
    else:
        groups = sliding_of(sliced, closing.length, closing.step)
    number, *others = columns(groups)
    conditions = [bind_scalar("gte", None, (number, _ZERO))]
    if wanted is not None:
        conditions.append(bind_scalar("lt", None, (number, others[len(windows.keys)])))
    for condition in conditions:
        groups = ir.Filter(input=groups, condition=condition, schema=schema, plan_path=plan_path)
    first, last, *values = others[len(keys) :]
    bounds = (ir.Field(index=tick.index, type=_NUMBER) for tick in (first, last))
    return project(groups, (*bounds, *others[: len(windows.keys)], *values), plan_path)


def read_by_measures(relation: ir.TimeWindows) -> tuple[int, ...]:
    """The columns of the input that measures read, from left to right."""
    fields = (part for measure in of_measures(relation) for part in parts(measure) if isinstance(part, ir.Field))
    return tuple(sorted({field.index for field in fields}))


def of_measures(relation: ir.TimeWindows) -> Sequence[ir.Expression]:
    """The expressions of the measures."""
    _, *expressions = tree.expressions(replace(relation, ends=None, keys=()))
    return expressions


def numbered_rows(rows: ir.Project, partitions: tuple[ir.Field, ...], order: Sequence[ir.Field]) -> ir.Window:
    """The rows with their numbers within their group of keys, from 1 on."""
    bound = bind(ir.FunctionKind.WINDOW, "row_number", None, ())
    call = ir.WindowCall(
        function=bound.function,
        arguments=(),
        type=bound.type,
        partitions=partitions,
        sorts=tuple(ir.SortKey(expression=column, direction=ir.Direction.ASC_NULLS_LAST) for column in order),
        lower=ir.Bound(offset=None),
        upper=ir.Bound(offset=0),
        bounds=ir.BoundsKind.ROWS,
        options=bound.options,
        plan_path=rows.plan_path,
    )
    return ir.Window(input=rows, calls=(call,), schema=(*rows.schema, call.type), plan_path=rows.plan_path)

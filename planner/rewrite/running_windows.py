"""Functions over the rows of a group of keys, in the order of their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..functions.added_calls import measure, window_call


def first_and_last(tick: ir.Expression, plan_path: str) -> tuple[ir.Measure, ir.Measure]:
    """The ticks of a group's first and last row."""
    return measure("min", tick, plan_path=plan_path), measure("max", tick, plan_path=plan_path)


def numbered_rows(rows: ir.Project, partitions: tuple[ir.Field, ...], order: Sequence[ir.Field]) -> ir.Window:
    """The rows with their numbers within their group of keys, from 1 on."""
    return _over(rows, window_call("row_number", plan_path=rows.plan_path), partitions, order, ir.BoundsKind.ROWS)


def next_to(
    rows: ir.Project, column: ir.Field, partitions: tuple[ir.Field, ...], order: Sequence[ir.Field]
) -> ir.Window:
    """The rows with the column's value in the next row of their group of keys; null in the last row."""
    return _over(rows, window_call("lead", column, plan_path=rows.plan_path), partitions, order, ir.BoundsKind.ROWS)


def up_to_time(
    rows: ir.Project, name: str, argument: ir.Field, partitions: tuple[ir.Field, ...], tick: ir.Field
) -> ir.Window:
    """The rows with a function over those of the same group of keys up to their time."""
    call = window_call(name, argument, plan_path=rows.plan_path)
    return _over(rows, call, partitions, (tick,), ir.BoundsKind.RANGE)


def _over(
    rows: ir.Project,
    call: ir.WindowCall,
    partitions: tuple[ir.Field, ...],
    order: Sequence[ir.Field],
    bounds: ir.BoundsKind,
) -> ir.Window:
    sorts = tuple(ir.SortKey(expression=column, direction=ir.Direction.ASC_NULLS_LAST) for column in order)
    call = replace(call, partitions=partitions, sorts=sorts, upper=ir.Bound(offset=0), bounds=bounds)
    return ir.Window(input=rows, calls=(call,), schema=(*rows.schema, call.type), plan_path=rows.plan_path)

"""Windows of slices: aggregates by the number of a row's slice."""

from __future__ import annotations

from .. import ir


def aggregate_by_mark(windows: ir.TimeWindows) -> ir.Aggregate:
    """The aggregate by slice: of windows that share no row, each slice is one."""
    keys = (windows.mark, *windows.keys)
    return ir.Aggregate(
        input=windows.input,
        keys=keys,
        grouping_sets=(tuple(range(len(keys))),),
        measures=windows.measures,
        schema=windows.schema,
        plan_path=windows.plan_path,
    )


def sliding_of(windows: ir.TimeWindows, length: int, step: int) -> ir.SlidingAggregate:
    return ir.SlidingAggregate(
        input=windows.input,
        slice=windows.mark,
        length=length,
        step=step,
        keys=windows.keys,
        measures=windows.measures,
        schema=windows.schema,
        plan_path=windows.plan_path,
    )

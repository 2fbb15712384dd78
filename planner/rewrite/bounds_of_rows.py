"""Measures that give the bounds of a window whose rows make its bounds."""

from __future__ import annotations

from .. import ir
from ..functions import bind


def least_and_greatest(tick: ir.Expression, plan_path: str) -> tuple[ir.Measure, ir.Measure]:
    """The ticks of a window's first and last row."""
    return _measure("min", tick, plan_path), _measure("max", tick, plan_path)


def _measure(name: str, argument: ir.Expression, plan_path: str) -> ir.Measure:
    bound = bind(ir.FunctionKind.AGGREGATE, name, None, (argument,))
    return ir.Measure(
        function=bound.function,
        arguments=(argument,),
        type=bound.type,
        options=bound.options,
        plan_path=plan_path,
    )

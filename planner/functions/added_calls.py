"""Calls that passes add to a plan, bound as a plan's own calls are."""

from __future__ import annotations

from collections.abc import Iterable

from .. import ir
from ..ir.boolean import conjuncts
from .binding import bind, bind_scalar


def call(name: str, *arguments: ir.Expression) -> ir.Expression:
    """A scalar function's call."""
    return bind_scalar(name, None, arguments)


def conjunction(terms: Iterable[ir.Expression]) -> ir.Expression | None:
    """The conjunction of all terms; None if there are none."""
    operands = [conjunct for term in terms for conjunct in conjuncts(term)]
    return call("and", *operands) if len(operands) > 1 else next(iter(operands), None)


def measure(name: str, *arguments: ir.Expression, plan_path: str = "") -> ir.Measure:
    """An aggregate function's call."""
    bound = bind(ir.FunctionKind.AGGREGATE, name, None, arguments)
    return ir.Measure(
        function=bound.function, arguments=arguments, type=bound.type, options=bound.options, plan_path=plan_path
    )


def window_call(name: str, *arguments: ir.Expression, plan_path: str = "") -> ir.WindowCall:
    """A window function's call over all rows: what it is over is for the caller to add."""
    bound = bind(ir.FunctionKind.WINDOW, name, None, arguments)
    return ir.WindowCall(
        function=bound.function, arguments=arguments, type=bound.type, options=bound.options, plan_path=plan_path
    )

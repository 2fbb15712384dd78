"""Decodes `Expression.detached_expression_ordinal`: an expression that the plan keeps beside its relation."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..plan_path import PlanPath
from ..scope import Scope


def convert_detached(decoder: Decoder, ordinal: int, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The expression as if it stood here."""
    if ordinal >= len(decoder.detached):
        message = f"there is no detached expression {ordinal}; there are {len(decoder.detached)}, counted from 0"
        decoder.problems.add(plan_path, "OUT_OF_RANGE", message)
        return poison.EXPRESSION
    number = decoder.detached[ordinal]
    if number in decoder.open_detached:
        message = f"the detached expression {ordinal} contains itself"
        decoder.problems.add(plan_path, "CIRCULAR_REFERENCE", message)
        return poison.EXPRESSION
    decoder.open_detached.add(number)
    expression = yield from decoder.argument(number, plan_path, scope)
    decoder.open_detached.discard(number)
    return expression

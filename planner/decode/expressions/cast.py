"""Decodes `Expression.cast`."""

from __future__ import annotations

from typing import Final

from ... import ir
from ...functions import before_cast, differs_inside, reads_moments_inside
from ...ir.types import Type, nullable
from .. import poison
from ..comparing import castable
from ..declarations.extensions import Declared
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..function_calls import bind_scalar
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope

_RETURN_NULL: Final = 1


def convert_cast(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The cast. Its result is nullable if the operand is, whatever the plan says. Unspecified failures are errors."""
    operand = yield from decoder.expression(message.input, plan_path / "input", scope, untyped=True)
    type_ = _target(decoder, message, plan_path)
    if operand is poison.NULL:
        return poison.EXPRESSION if is_unknown(type_) else ir.Literal(value=None, type=nullable(type_))
    if is_unknown(type_) or is_unknown(operand.type):
        return poison.EXPRESSION
    if not castable(operand.type, type_):
        problem = f"{operand.type} cannot be cast to {type_}"
        decoder.problems.add(plan_path, "BAD_CAST", problem)
        return poison.EXPRESSION
    if (inside := differs_inside(decoder.habits.dialect, operand.type, type_)) is not None:
        one, other = inside
        problem = f"the plan's producer casts {one} to {other} otherwise than Tidegate does inside of {operand.type}"
        decoder.problems.add(plan_path, "BAD_CAST", f"{problem}; cast the values before they are put together")
        return poison.EXPRESSION
    if (inside := reads_moments_inside(operand.type, type_)) is not None:
        one, other = inside
        problem = f"{one} is not cast to {other} inside of {operand.type}"
        decoder.problems.add(plan_path, "BAD_CAST", f"{problem}; cast the values before they are put together")
        return poison.EXPRESSION
    if (before := before_cast(decoder.habits.dialect, operand.type, type_)) is not None:
        declared = Declared(before.name, before.extension)
        operand = bind_scalar(decoder, declared, [operand, *before.constants], plan_path)
    null_on_failure = message.failure_behavior == _RETURN_NULL
    return ir.Cast(
        operand=operand,
        type=nullable(type_) if null_on_failure or operand.type.nullable else type_,
        on_failure=ir.CastFailure.NULL if null_on_failure else ir.CastFailure.ERROR,
    )


def _target(decoder: Decoder, message: Message, plan_path: PlanPath) -> Type:
    at = plan_path / "type"
    return decoder.types.carried(decoder.types.convert(message.type, at), at)

"""Decodes `Expression.scalar_function`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from ... import ir
from ...ir.types import Float, Integer
from .. import poison
from ..declarations.extensions import Declared
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..function_calls import Argument, bind_scalar, declared_function, read_arguments, read_options
from ..plan_path import PlanPath
from ..scope import Scope


def convert_scalar_function(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    declared = declared_function(decoder, message.function_reference, plan_path)
    arguments = yield from read_arguments(decoder, message, plan_path, scope)
    options = read_options(decoder, message, plan_path)
    output = decoder.types.optional(message.output_type, plan_path / "output_type")
    if declared is None:
        return poison.EXPRESSION
    if decoder.habits.not_like_is_not_equal and _is_not_like(declared, arguments):
        sentence = "the producer writes NOT LIKE as not_equal; this pattern means NOT LIKE, and Tidegate runs NOT LIKE"
        decoder.problems.warn(plan_path, sentence)
        declared = replace(declared, name="!~~")
    if decoder.habits.quotients_are_floats and isinstance(output, Float) and _are_divided_integers(arguments, declared):
        arguments = tuple(ir.Cast(operand=one, type=Float(bits=64, nullable=one.type.nullable)) for one in arguments)
        declared = replace(declared, name="divide")
    return bind_scalar(decoder, declared, arguments, plan_path, options=options, output=output)


def _are_divided_integers(arguments: Sequence[Argument], declared: Declared) -> TypeGuard[Sequence[ir.Expression]]:
    return declared.name.partition(":")[0] == "divide" and all(
        not isinstance(argument, str) and isinstance(argument.type, Integer) for argument in arguments
    )


def _is_not_like(declared: Declared, arguments: Sequence[Argument]) -> bool:
    """Tests whether a `not_equal` can only be a pattern match. DuckDB turns patterns with a `%` at one end or both into
    other functions, so the patterns that remain have a `%` inside too; plain text hardly looks like that.
    """
    match arguments:
        case (_, ir.Literal(value=str(pattern))) if declared.name.partition(":")[0] == "not_equal":
            inside = pattern.strip("%")
            return "%" in inside and pattern != inside
        case _:
            return False

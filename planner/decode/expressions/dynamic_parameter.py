"""Decodes `Expression.dynamic_parameter`: the value that the plan's `parameter_bindings` have for it."""

from __future__ import annotations

from dataclasses import replace

from ... import ir
from ...ir.types import required
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_dynamic_parameter(
    decoder: Decoder, message: Message, plan_path: PlanPath, _: Scope
) -> Steps[ir.Expression]:
    reference = message.parameter_reference
    type_ = decoder.types.convert(message.type, plan_path / "type")
    if reference not in decoder.parameters:
        problem = f"parameter {reference} has no value: add a binding for it to the plan's parameter_bindings"
        decoder.problems.add(plan_path / "parameter_reference", "UNKNOWN_ANCHOR", problem)
        return poison.EXPRESSION
    literal = decoder.literals.convert(*decoder.parameters[reference])
    if is_unknown(type_) or is_unknown(literal.type):
        return poison.EXPRESSION
    if required(literal.type) != required(type_) or (literal.value is None and not type_.nullable):
        value = "null" if literal.value is None else literal.type
        problem = f"parameter {reference} is declared {type_}, but its value is {value}"
        decoder.problems.add(plan_path / "type", "MIXED_TYPES", problem)
        return poison.EXPRESSION
    return replace(literal, type=type_)
    yield  # a converter is a generator even if it asks for nothing

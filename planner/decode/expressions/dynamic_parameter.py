"""Decodes `Expression.dynamic_parameter`: the value that is given for it, or that the plan binds to it."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_dynamic_parameter(decoder: Decoder, message: Message, plan_path: PlanPath, _: Scope) -> ir.Expression:
    """The value as a literal. DataFusion declares no type where its planner needs none, as in a LIMIT."""
    type_ = decoder.types.optional(message.type, plan_path / "type")
    if type_ is not None and is_unknown(type_):
        return poison.EXPRESSION
    return decoder.parameters.value(message.parameter_reference, type_, plan_path) or poison.EXPRESSION

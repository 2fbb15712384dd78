"""Decodes `Expression.lambda`."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_lambda(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The lambda. Its type here is the type of its body: its parameters say the rest."""
    parameters = decoder.types.row(message.parameters.types, plan_path / "parameters")
    body = yield from decoder.expression(message.body, plan_path / "body", scope.inside_lambda(parameters))
    if is_unknown(body.type) or any(map(is_unknown, parameters)):
        return poison.EXPRESSION
    return ir.Lambda(parameters=parameters, body=body, type=body.type)

"""Decodes `Expression.lambda` and `Expression.lambda_invocation`."""

from __future__ import annotations

from typing import Final

from ... import ir
from ...ir import types as t
from .. import poison
from ..comparing import same_type
from ..declarations.extensions import Declared
from ..decoder import Decoder, Steps
from ..encoding import limits
from ..encoding.message_nodes import Message
from ..function_calls import bind_scalar
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope

_TRANSFORM: Final = Declared("transform", "extension:io.substrait:functions_list")


def convert_lambda(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The lambda. Its type here is the type of its body: its parameters say the rest."""
    if not _has_depth(decoder, plan_path, scope):
        return poison.EXPRESSION
    parameters = decoder.types.row(message.parameters.types, plan_path / "parameters")
    body = yield from decoder.expression(message.body, plan_path / "body", scope.inside_lambda(parameters))
    if is_unknown(body.type) or any(map(is_unknown, parameters)):
        return poison.EXPRESSION
    return ir.Lambda(parameters=parameters, body=body, type=body.type)


def convert_lambda_invocation(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    """The call of a lambda: its body over a list of one struct, whose fields are the arguments. So each argument is
    computed once, however often the body reads it.
    """
    if not _has_depth(decoder, plan_path, scope):
        return poison.EXPRESSION
    called = getattr(message, "lambda")
    parameters = decoder.types.row(called.parameters.types, plan_path / "lambda" / "parameters")
    fields = yield from decoder.expressions(message.arguments.fields, plan_path / "arguments", "fields", scope)
    types = tuple(field.type for field in fields)
    if any(map(is_unknown, (*types, *parameters))):
        return poison.EXPRESSION
    if len(types) != len(parameters) or not all(map(same_type, types, parameters)):
        wanted, there = (", ".join(map(str, row)) for row in (parameters, types))
        problem = f"the lambda takes ({wanted}), not ({there})"
        decoder.problems.add(plan_path / "arguments", "WRONG_TYPE", problem)
        return poison.EXPRESSION
    inside = scope.inside_lambda(types, packed=True)
    body = yield from decoder.expression(called.body, plan_path / "lambda" / "body", inside)
    if is_unknown(body.type):
        return poison.EXPRESSION
    struct = t.Struct(fields=types, nullable=False)
    arguments = ir.Nested(construct=ir.Construct.STRUCT, items=tuple(fields), type=struct)
    rows = ir.Nested(construct=ir.Construct.LIST, items=(arguments,), type=t.List(element=struct, nullable=False))
    function = ir.Lambda(parameters=(struct,), body=body, type=body.type)
    results = bind_scalar(decoder, _TRANSFORM, [rows, function], plan_path)
    return ir.NestedField(operand=results, steps=(ir.ListElement(offset=0),), type=body.type)


def _has_depth(decoder: Decoder, plan_path: PlanPath, scope: Scope) -> bool:
    """Tests the number of lambdas around another one against its limit, and reports an excess."""
    if len(scope.parameters) < limits.LAMBDAS.most:
        return True
    decoder.problems.add(plan_path, limits.REASON, limits.LAMBDAS.message())
    return False

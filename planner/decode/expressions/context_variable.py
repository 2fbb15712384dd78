"""Decodes `Expression.execution_context_variable`: the clock and the session's zone."""

from __future__ import annotations

from ... import ir
from ...ir import types as t
from .. import poison
from ..decoder import Decoder
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope


def convert_context_variable(decoder: Decoder, message: Message, plan_path: PlanPath, _: Scope) -> ir.Expression:
    match message.WhichOneof("execution_context_variable_type"):
        case "current_timestamp" as kind:
            precision = decoder.types.precision(message.current_timestamp.precision, plan_path / kind)
            if precision is None:
                return poison.EXPRESSION
            return ir.ContextVariable(
                variable=ir.Clock.TIMESTAMP, type=t.TimestampTz(precision=precision, nullable=False)
            )
        case "current_date":
            return ir.ContextVariable(variable=ir.Clock.DATE, type=t.Date(nullable=False))
        case "current_timezone":
            return ir.ContextVariable(variable=ir.Clock.TIMEZONE, type=t.String(nullable=False))
        case _:
            return decoder.missing_expression(plan_path)

"""Decodes `FilterRel`."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope


def convert_filter(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    scope = decoder.scope([below], message, outer)
    condition = yield from decoder.condition(message.condition, plan_path / "condition", scope)
    if below is poison.RELATION:
        return below
    return ir.Filter(input=below, condition=condition, schema=below.schema, plan_path=str(plan_path))

"""Decodes `NestedLoopJoinRel`: a join by any condition. Its types have the physical joins' numbers."""

from __future__ import annotations

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from .join_schema import PHYSICAL, has_columns, join_schema, join_type, joined


def convert_nested_loop_join(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    left, right, condition = yield from joined(decoder, message, plan_path, outer)
    type_ = join_type(decoder, message.type, PHYSICAL, plan_path)
    if type_ is None or not has_columns(decoder, left, right, type_):
        return poison.RELATION
    return ir.Join(
        left=left,
        right=right,
        type=type_,
        condition=condition,
        schema=join_schema(left.schema, right.schema, type_),
        plan_path=str(plan_path),
        algorithm=ir.JoinAlgorithm.NESTED_LOOP,
    )

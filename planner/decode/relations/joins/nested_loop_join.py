"""`NestedLoopJoinRel`: a join by any condition. Its types have the physical joins' numbers."""

from __future__ import annotations

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import Place
from ...scope import Scope
from .join_schema import PHYSICAL, has_columns, join_schema, join_type


def convert_nested_loop_join(
    decoder: Decoder, message: Message, place: Place, outer: Scope | None
) -> Steps[ir.Relation]:
    left = yield from decoder.relation(message.left, place / "left", outer)
    right = yield from decoder.relation(message.right, place / "right", outer)
    scope = decoder.scope([left, right], message, outer)
    condition = None
    if message.expression:
        condition = yield from decoder.condition(message.expression, place / "expression", scope)
    type_ = join_type(decoder, message.type, PHYSICAL, place)
    if type_ is None or not has_columns(decoder, left, right, type_):
        return poison.RELATION
    return ir.Join(
        left=left,
        right=right,
        type=type_,
        condition=condition,
        schema=join_schema(left.schema, right.schema, type_),
        place=str(place),
        algorithm=ir.JoinAlgorithm.NESTED_LOOP,
    )

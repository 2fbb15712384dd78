"""Decodes `LateralJoinRel`: the right input reads the left row through outer references."""

from __future__ import annotations

from typing import Final

from .... import ir
from ....ir import JoinType
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from .join_schema import LOGICAL, filtered, join_schema, join_type, joined

_ALLOWED: Final = {
    JoinType.INNER,
    JoinType.LEFT,
    JoinType.LEFT_SEMI,
    JoinType.LEFT_ANTI,
    JoinType.LEFT_SINGLE,
    JoinType.LEFT_MARK,
}


def convert_lateral_join(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    left, right, condition = yield from joined(decoder, message, plan_path, outer, lateral=True)
    type_ = join_type(decoder, message.type, LOGICAL, plan_path)
    if type_ is not None and type_ not in _ALLOWED:
        problem = f"a lateral join cannot be {type_.value}: the right input exists for a left row only"
        decoder.problems.add(plan_path / "type", "BAD_JOIN_TYPE", problem)
    join: ir.Relation = poison.RELATION
    if type_ is not None and left is not poison.RELATION and right is not poison.RELATION:
        join = ir.LateralJoin(
            left=left,
            right=right,
            type=type_,
            condition=condition,
            schema=join_schema(left.schema, right.schema, type_),
            plan_path=str(plan_path),
        )
    return (yield from filtered(decoder, join, message, plan_path, outer))

"""Decodes `CrossRel`."""

from __future__ import annotations

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope


def convert_cross(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    left = yield from decoder.relation(message.left, plan_path / "left", outer)
    right = yield from decoder.relation(message.right, plan_path / "right", outer)
    if left is poison.RELATION or right is poison.RELATION:
        return poison.RELATION
    return ir.Cross(left=left, right=right, schema=left.schema + right.schema, plan_path=str(plan_path))

"""`CrossRel`."""

from __future__ import annotations

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import Place
from ...scope import Scope


def convert_cross(decoder: Decoder, message: Message, place: Place, outer: Scope | None) -> Steps[ir.Relation]:
    left = yield from decoder.relation(message.left, place / "left", outer)
    right = yield from decoder.relation(message.right, place / "right", outer)
    if left is poison.RELATION or right is poison.RELATION:
        return poison.RELATION
    return ir.Cross(left=left, right=right, schema=left.schema + right.schema, place=str(place))

"""`FilterRel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from .. import poison
from ..encoding.message_nodes import Message
from ..plan_path import Place
from ..scope import Scope

if TYPE_CHECKING:
    from ..decoder import Decoder, Steps


def convert_filter(decoder: Decoder, message: Message, place: Place, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, place / "input", outer)
    scope = decoder.scope([below], message, outer)
    condition = yield from decoder.condition(message.condition, place / "condition", scope)
    if below is poison.RELATION:
        return below
    return ir.Filter(input=below, condition=condition, schema=below.schema, place=str(place))

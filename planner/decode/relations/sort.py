"""Decodes `SortRel`."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope
from ..sorting import convert_sorts


def convert_sort(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    keys = yield from convert_sorts(decoder, message.sorts, plan_path, decoder.scope([below], message, outer))
    if not keys:
        decoder.problems.add(plan_path / "sorts", "MISSING", "a sort must have at least one sort field")
    if below is poison.RELATION:
        return below
    return ir.Sort(input=below, keys=keys, schema=below.schema, plan_path=str(plan_path))

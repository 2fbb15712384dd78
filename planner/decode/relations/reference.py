"""Decodes `ReferenceRel`: a common subtree, which is decoded once and used by number."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope


def convert_reference(decoder: Decoder, message: Message, plan_path: PlanPath, _: Scope | None) -> Steps[ir.Relation]:
    """The use of a subtree. Outer references in the subtree find no row: the subtree itself stands in no subquery."""
    ordinal = message.subtree_ordinal
    if ordinal not in decoder.subtrees:
        problem = (
            f"relation {ordinal} of the plan is not a common subtree; the common subtrees are "
            f"{sorted(decoder.subtrees) or 'none'}"
        )
        decoder.problems.add(plan_path / "subtree_ordinal", "OUT_OF_RANGE", problem)
        return poison.RELATION
    position, relation = yield from decoder.shared_relation(ordinal, plan_path)
    if relation is poison.RELATION:
        return relation
    if ordinal in decoder.side_writes:
        problem = f"relation {ordinal} of the plan is a write, whose rows go into its table alone: refer to its input"
        decoder.problems.add(plan_path, "MISPLACED_WRITE", problem)
        return poison.RELATION
    return ir.Shared(ordinal=position, schema=relation.schema, plan_path=str(plan_path))

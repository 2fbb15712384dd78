"""The two inputs of a join that is a message of Tidegate's, and the pairs of columns that are to be equal."""

from __future__ import annotations

from typing import Any

from .... import ir
from ... import poison
from ...comparing import same_type
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope, column


def sides_of(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[tuple[ir.Relation, ir.Relation] | None]:
    """The two inputs of a join; None, once reported, if something is wrong with them."""
    sides: list[ir.Relation] = []
    for at, number in enumerate(message.inputs):
        sides.append((yield from decoder.relation(number, plan_path.at("inputs", at), outer)))
    if len(sides) != 2:
        decoder.problems.add(plan_path / "inputs", "MISSING", f"the join has two inputs, not {len(sides)}")
        return None
    left, right = sides
    return None if left is poison.RELATION or right is poison.RELATION else (left, right)


def keys_of(
    decoder: Decoder, keys: Any, left: ir.Schema, right: ir.Schema, plan_path: PlanPath
) -> tuple[tuple[ir.Field, ir.Field], ...] | None:
    """The pairs of columns that have to be equal; None, once reported, if there is no such pair."""
    pairs: list[tuple[ir.Field, ir.Field]] = []
    for key in keys:
        these, those = column(left, key.left), column(right, key.right)
        if these is None or those is None:
            problem = f"there is no pair of columns {key.left} of {len(left)} and {key.right} of {len(right)}"
            decoder.problems.add(plan_path, "OUT_OF_RANGE", problem)
            return None
        if not same_type(these, those):
            problem = f"a key of type {these} cannot be equal to one of type {those}: add a cast to an input"
            decoder.problems.add(plan_path, "MIXED_TYPES", problem)
            return None
        pairs.append((ir.Field(index=key.left, type=these), ir.Field(index=len(left) + key.right, type=those)))
    return tuple(pairs)

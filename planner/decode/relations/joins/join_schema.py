"""The common parts of all joins: their types, and the columns of each type."""

from __future__ import annotations

from typing import Final

from .... import ir
from ....ir import JoinType
from ....ir.types import Boolean, nullable
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope

LOGICAL: Final = {
    1: JoinType.INNER,
    2: JoinType.OUTER,
    3: JoinType.LEFT,
    4: JoinType.RIGHT,
    5: JoinType.LEFT_SEMI,
    6: JoinType.LEFT_ANTI,
    7: JoinType.LEFT_SINGLE,
    8: JoinType.RIGHT_SEMI,
    9: JoinType.RIGHT_ANTI,
    10: JoinType.RIGHT_SINGLE,
    11: JoinType.LEFT_MARK,
    12: JoinType.RIGHT_MARK,
}
"""The numbers of `JoinRel.JoinType`. The physical joins number 6 to 9 differently."""

PHYSICAL: Final = LOGICAL | {
    6: JoinType.RIGHT_SEMI,
    7: JoinType.LEFT_ANTI,
    8: JoinType.RIGHT_ANTI,
    9: JoinType.LEFT_SINGLE,
}
"""The numbers of `HashJoinRel.JoinType`, and of the types of merge and nested-loop joins."""


_OF_LEFT: Final = {JoinType.LEFT_SEMI, JoinType.LEFT_ANTI, JoinType.LEFT_MARK}
_OF_RIGHT: Final = {JoinType.RIGHT_SEMI, JoinType.RIGHT_ANTI, JoinType.RIGHT_MARK}


def join_type(decoder: Decoder, number: int, numbering: dict[int, JoinType], plan_path: PlanPath) -> JoinType | None:
    """The type of a join; None, once reported, if it has none."""
    kind = numbering.get(number)
    if kind is None:
        decoder.problems.add(plan_path / "type", "MISSING", "the join type is missing or unknown")
    return kind


def joined(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None, *, lateral: bool = False
) -> Steps[tuple[ir.Relation, ir.Relation, ir.Expression | None]]:
    """The inputs of a join, and the expression over the columns of both, which producers leave out if every pair
    matches. The right input of a `lateral` join reads the row of the left one.
    """
    left = yield from decoder.relation(message.left, plan_path / "left", outer)
    around = decoder.scope([left], message, outer) if lateral else outer
    right = yield from decoder.relation(message.right, plan_path / "right", around)
    scope = decoder.scope([left, right], message, outer)
    condition = None
    if message.expression:
        condition = yield from decoder.condition(message.expression, plan_path / "expression", scope)
    return left, right, condition


def has_columns(decoder: Decoder, left: ir.Relation, right: ir.Relation, type_: JoinType) -> bool:
    """Tests whether a join's columns are known. While the columns of a loop are still being found, a side of which only
    the matches count need not be known.
    """
    sides: tuple[ir.Relation, ...] = (left, right)
    if decoder.loops.guessing and type_ in _OF_LEFT:
        sides = (left,)
    elif decoder.loops.guessing and type_ in _OF_RIGHT:
        sides = (right,)
    return all(side is not poison.RELATION for side in sides)


def join_schema(left: ir.Schema, right: ir.Schema, type_: JoinType) -> ir.Schema:
    """The columns of a join. A side that may have no partner is nullable; a mark is a nullable boolean."""
    match type_:
        case JoinType.INNER:
            return left + right
        case JoinType.OUTER:
            return _nullable(left) + _nullable(right)
        case JoinType.LEFT | JoinType.LEFT_SINGLE:
            return left + _nullable(right)
        case JoinType.RIGHT | JoinType.RIGHT_SINGLE:
            return _nullable(left) + right
        case JoinType.LEFT_SEMI | JoinType.LEFT_ANTI:
            return left
        case JoinType.RIGHT_SEMI | JoinType.RIGHT_ANTI:
            return right
        case JoinType.LEFT_MARK:
            return (*left, Boolean())
        case JoinType.RIGHT_MARK:
            return (*right, Boolean())


def _nullable(schema: ir.Schema) -> ir.Schema:
    return tuple(nullable(type_) for type_ in schema)


def filtered(
    decoder: Decoder, join: ir.Relation, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    """`join` with the message's `post_join_filter`, which is a plain filter above the join."""
    if not message.post_join_filter:
        return join
    scope = Scope(schema=None if join is poison.RELATION else join.schema, outer=outer)
    condition = yield from decoder.condition(message.post_join_filter, plan_path / "post_join_filter", scope)
    if join is poison.RELATION:
        return join
    return ir.Filter(input=join, condition=condition, schema=join.schema, plan_path=str(plan_path / "post_join_filter"))

"""Decodes `JoinRel`."""

from __future__ import annotations

from typing import Final

from .... import ir
from ....functions.added_calls import call, conjunction
from ....ir.boolean import conjuncts
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from .join_schema import LOGICAL, filtered, has_columns, join_schema, join_type, joined

_MARK: Final = (
    "DataFusion writes EXISTS and IN inside OR as the same mark join. Its mark is null if an equality of the condition "
    "is, as Substrait and IN define it, so NOT EXISTS misses rows whose columns in the condition are null. So does NOT "
    "IN of a subquery that equates a column with the outer row's"
)
_ANTI: Final = (
    "DataFusion writes NOT IN as the anti join of NOT EXISTS. This anti join keeps rows for which the condition is "
    "null, and NOT IN drops them: for NOT IN, filter out rows whose columns in the condition are null"
)
_MARKS: Final = (ir.JoinType.LEFT_MARK, ir.JoinType.RIGHT_MARK)
_EXISTS_OR_IN: Final = {
    ir.JoinType.LEFT_MARK: _MARK,
    ir.JoinType.RIGHT_MARK: _MARK,
    ir.JoinType.LEFT_ANTI: _ANTI,
    ir.JoinType.RIGHT_ANTI: _ANTI,
}


def convert_join(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    left, right, condition = yield from joined(decoder, message, plan_path, outer)
    type_ = join_type(decoder, message.type, LOGICAL, plan_path)
    if decoder.habits.exists_is_in and type_ in _MARKS and condition is not None:
        condition = _known_but_equalities(condition)
    if decoder.habits.exists_is_in and type_ in _EXISTS_OR_IN and _may_be_null(condition):
        decoder.problems.warn(plan_path, _EXISTS_OR_IN[type_])
    join: ir.Relation = poison.RELATION
    if type_ is not None and has_columns(decoder, left, right, type_):
        join = ir.Join(
            left=left,
            right=right,
            type=type_,
            condition=condition,
            schema=join_schema(left.schema, right.schema, type_),
            plan_path=str(plan_path),
        )
    return (yield from filtered(decoder, join, message, plan_path, outer))


def _known_but_equalities(condition: ir.Expression) -> ir.Expression:
    """The condition with false in place of null for all that is not an equality. That is a subquery's own condition,
    which drops the inner row: IN compares by an equality.
    """
    if not _may_be_null(condition):
        return condition
    terms = (
        term if _is_equality(term) or not _may_be_null(term) else call("is_true", term) for term in conjuncts(condition)
    )
    return conjunction(terms) or condition


def _is_equality(term: ir.Expression) -> bool:
    return isinstance(term, ir.Call) and term.function.name == "equal"


def _may_be_null(condition: ir.Expression | None) -> bool:
    return condition is not None and condition is not poison.EXPRESSION and condition.type.nullable

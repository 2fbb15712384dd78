"""Decodes `Expression.subquery`."""

from __future__ import annotations

import operator
from typing import Final

from ... import ir
from ...functions import in_one_order
from ...ir import building
from ...ir.types import Boolean, nullable
from .. import poison
from ..comparing import comparable
from ..decoder import Decoder, Steps
from ..encoding import limits
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope

_PREDICATES: Final = {1: ir.SubqueryKind.EXISTS, 2: ir.SubqueryKind.UNIQUE}
_REDUCTIONS: Final = {1: ir.SubqueryKind.ANY, 2: ir.SubqueryKind.ALL}
_COMPARISONS: Final = {
    1: ir.Comparison.EQ,
    2: ir.Comparison.NE,
    3: ir.Comparison.LT,
    4: ir.Comparison.GT,
    5: ir.Comparison.LE,
    6: ir.Comparison.GE,
}


def convert_subquery(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The subquery. Inside of it, `scope` is the next scope outwards."""
    scope = scope.without_windows()
    kind = message.WhichOneof("subquery_type")
    if kind is None:
        return decoder.missing_expression(plan_path)
    body, plan_path = getattr(message, kind), plan_path / kind
    if not decoder.count(limits.SUBQUERIES, plan_path):
        return poison.EXPRESSION
    match kind:
        case "scalar":
            return (yield from _scalar(decoder, body, plan_path, scope))
        case "in_predicate":
            return (yield from _in(decoder, body, plan_path, scope))
        case "set_predicate":
            return (yield from _exists(decoder, body, plan_path, scope))
        case _:
            return (yield from _comparison(decoder, body, plan_path, scope))


def _scalar(decoder: Decoder, body: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    relation = yield from decoder.relation(body.input, plan_path / "input", scope)
    if relation is poison.RELATION or not _has_width(decoder, relation, 1, plan_path / "input"):
        return poison.EXPRESSION
    type_ = relation.schema[0]
    if is_unknown(type_):
        return poison.EXPRESSION
    return ir.Subquery(kind=ir.SubqueryKind.SCALAR, relation=relation, type=nullable(type_), plan_path=str(plan_path))


def _in(decoder: Decoder, body: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    needles = yield from decoder.expressions(body.needles, plan_path, "needles", scope.in_subquery_operand())
    relation = yield from decoder.relation(body.haystack, plan_path / "haystack", scope)
    if not needles:
        decoder.problems.add(plan_path, "MISSING", "the IN predicate must have at least one needle")
        return poison.EXPRESSION
    return _matching(decoder, ir.SubqueryKind.IN, None, needles, relation, plan_path, "haystack")


def _exists(decoder: Decoder, body: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    relation = yield from decoder.relation(body.tuples, plan_path / "tuples", scope)
    kind = _PREDICATES.get(body.predicate_op)
    if kind is None:
        decoder.problems.add(plan_path / "predicate_op", "MISSING", "the predicate must be EXISTS or UNIQUE")
        return poison.EXPRESSION
    if relation is poison.RELATION:
        return poison.EXPRESSION
    return ir.Subquery(kind=kind, relation=relation, type=Boolean(nullable=False), plan_path=str(plan_path))


def _comparison(decoder: Decoder, body: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    left = yield from decoder.expression(body.left, plan_path / "left", scope.in_subquery_operand())
    relation = yield from decoder.relation(body.right, plan_path / "right", scope)
    kind, comparison = _REDUCTIONS.get(body.reduction_op), _COMPARISONS.get(body.comparison_op)
    if kind is None or comparison is None:
        decoder.problems.add(
            plan_path, "MISSING", "a set comparison must have a reduction (ANY or ALL) and a comparison"
        )
        return poison.EXPRESSION
    return _matching(decoder, kind, comparison, (left,), relation, plan_path, "right")


def _matching(
    decoder: Decoder,
    kind: ir.SubqueryKind,
    comparison: ir.Comparison | None,
    needles: tuple[ir.Expression, ...],
    relation: ir.Relation,
    plan_path: PlanPath,
    field: str,
) -> ir.Expression:
    """A subquery whose rows are compared with `needles`."""
    if relation is poison.RELATION or not _has_width(decoder, relation, len(needles), plan_path / field):
        return poison.EXPRESSION
    for needle, type_ in zip(needles, relation.schema, strict=True):
        if not comparable(needle.type, type_):
            problem = f"{needle.type} cannot be compared with {type_}"
            decoder.problems.add(plan_path, "MIXED_TYPES", problem)
            return poison.EXPRESSION
    types = [*(needle.type for needle in needles), *relation.schema]
    if any(map(is_unknown, types)):
        return poison.EXPRESSION
    boolean = Boolean(nullable=any(type_.nullable for type_ in types))
    needles, relation = _in_one_order(needles, relation)
    return ir.Subquery(
        kind=kind, relation=relation, type=boolean, needles=needles, comparison=comparison, plan_path=str(plan_path)
    )


def _in_one_order(
    needles: tuple[ir.Expression, ...], relation: ir.Relation
) -> tuple[tuple[ir.Expression, ...], ir.Relation]:
    """The needles and the rows, in types that can be compared."""
    fields = building.columns(relation.schema)
    pairs = [in_one_order(pair) for pair in zip(needles, fields, strict=True)]
    changed = [pair[1] for pair in pairs]
    if all(map(operator.is_, changed, fields)):
        return needles, relation
    return tuple(pair[0] for pair in pairs), building.project(relation, changed)


def _has_width(decoder: Decoder, relation: ir.Relation, width: int, plan_path: PlanPath) -> bool:
    columns = len(relation.schema)
    if columns == width:
        return True
    problem = f"the subquery must have {width} column{'s' * (width != 1)}, it has {columns}"
    decoder.problems.add(plan_path, "WRONG_WIDTH", problem)
    return False

"""`Expression.subquery`."""

from __future__ import annotations

from typing import Final

from ... import ir
from ...ir.types import Boolean, nullable
from .. import poison
from ..comparing import comparable
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import Place
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


def convert_subquery(decoder: Decoder, message: Message, place: Place, scope: Scope) -> Steps[ir.Expression]:
    """The subquery. Inside of it, `scope` is the next scope outwards."""
    scope = scope.without_windows()
    kind = message.WhichOneof("subquery_type")
    if kind is None:
        return decoder.missing_expression(place)
    body, place = getattr(message, kind), place / kind
    match kind:
        case "scalar":
            return (yield from _scalar(decoder, body, place, scope))
        case "in_predicate":
            return (yield from _in(decoder, body, place, scope))
        case "set_predicate":
            return (yield from _exists(decoder, body, place, scope))
        case _:
            return (yield from _comparison(decoder, body, place, scope))


def _scalar(decoder: Decoder, body: Message, place: Place, scope: Scope) -> Steps[ir.Expression]:
    relation = yield from decoder.relation(body.input, place / "input", scope)
    if relation is poison.RELATION or not _has_width(decoder, relation, 1, place / "input"):
        return poison.EXPRESSION
    type_ = relation.schema[0]
    if is_unknown(type_):
        return poison.EXPRESSION
    return ir.Subquery(kind=ir.SubqueryKind.SCALAR, relation=relation, type=nullable(type_), place=str(place))


def _in(decoder: Decoder, body: Message, place: Place, scope: Scope) -> Steps[ir.Expression]:
    needles = yield from decoder.expressions(body.needles, place, "needles", scope)
    relation = yield from decoder.relation(body.haystack, place / "haystack", scope)
    if not needles:
        decoder.problems.add(place, "MISSING", "there must be at least one needle")
        return poison.EXPRESSION
    return _matching(decoder, ir.SubqueryKind.IN, None, needles, relation, place, "haystack")


def _exists(decoder: Decoder, body: Message, place: Place, scope: Scope) -> Steps[ir.Expression]:
    relation = yield from decoder.relation(body.tuples, place / "tuples", scope)
    kind = _PREDICATES.get(body.predicate_op)
    if kind is None:
        decoder.problems.add(place / "predicate_op", "MISSING", "the predicate must be EXISTS or UNIQUE")
        return poison.EXPRESSION
    if relation is poison.RELATION:
        return poison.EXPRESSION
    return ir.Subquery(kind=kind, relation=relation, type=Boolean(nullable=False), place=str(place))


def _comparison(decoder: Decoder, body: Message, place: Place, scope: Scope) -> Steps[ir.Expression]:
    left = yield from decoder.expression(body.left, place / "left", scope)
    relation = yield from decoder.relation(body.right, place / "right", scope)
    kind, comparison = _REDUCTIONS.get(body.reduction_op), _COMPARISONS.get(body.comparison_op)
    if kind is None or comparison is None:
        decoder.problems.add(place, "MISSING", "there must be a reduction (ANY or ALL) and a comparison")
        return poison.EXPRESSION
    return _matching(decoder, kind, comparison, (left,), relation, place, "right")


def _matching(
    decoder: Decoder,
    kind: ir.SubqueryKind,
    comparison: ir.Comparison | None,
    needles: tuple[ir.Expression, ...],
    relation: ir.Relation,
    place: Place,
    field: str,
) -> ir.Expression:
    """A subquery whose rows are compared with `needles`."""
    if relation is poison.RELATION or not _has_width(decoder, relation, len(needles), place / field):
        return poison.EXPRESSION
    for needle, type_ in zip(needles, relation.schema, strict=True):
        if not comparable(needle.type, type_):
            problem = f"{needle.type} cannot be compared with {type_}"
            decoder.problems.add(place, "MIXED_TYPES", problem)
            return poison.EXPRESSION
    types = [*(needle.type for needle in needles), *relation.schema]
    if any(map(is_unknown, types)):
        return poison.EXPRESSION
    boolean = Boolean(nullable=any(type_.nullable for type_ in types))
    return ir.Subquery(
        kind=kind, relation=relation, type=boolean, needles=needles, comparison=comparison, place=str(place)
    )


def _has_width(decoder: Decoder, relation: ir.Relation, width: int, place: Place) -> bool:
    found = len(relation.schema)
    if found == width:
        return True
    problem = f"the subquery must have {width} column{'s' * (width != 1)}, it has {found}"
    decoder.problems.add(place, "WRONG_WIDTH", problem)
    return False

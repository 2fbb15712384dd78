"""Makes joins of lateral joins whose right side only compares its rows with the left row.

DuckDB evaluates the right side of a lateral join for different left rows, which it holds in memory. The right side may
be filters over a relation that reads no left row. Then the filters' terms are terms of a join's condition: DuckDB
writes to disk what does not fit, and channels share the rows out by columns that must be equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .. import ir
from ..analysis.outer_references import OuterReferences
from ..functions.added_calls import call, conjunction
from ..ir.boolean import conjuncts
from ..ir.building import filtered
from ..ir.visit import has, has_subquery, is_open, transform, transform_relations

_JOINED: Final = frozenset(
    {
        ir.JoinType.INNER,
        ir.JoinType.LEFT,
        ir.JoinType.LEFT_SEMI,
        ir.JoinType.LEFT_ANTI,
        ir.JoinType.LEFT_SINGLE,
        ir.JoinType.LEFT_MARK,
    }
)
"""The types of joins that compare no more rows than the lateral joins do."""


def join_laterals(plan: ir.Plan) -> ir.Plan:
    """The plan with joins in place of such lateral joins."""
    if not has(plan, ir.LateralJoin):
        return plan
    references = OuterReferences()

    def change(relation: ir.Relation) -> ir.Relation:
        return _joined(relation, references) if isinstance(relation, ir.LateralJoin) else relation

    root, *shared = (transform_relations(relation, change) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def _joined(relation: ir.LateralJoin, references: OuterReferences) -> ir.Relation:
    right, filters = relation.right, list[ir.Filter]()
    while isinstance(right, ir.Filter) and not has_subquery(right.condition):
        filters.append(right)
        right = right.input
    if references.of(right).rows or relation.type not in _JOINED or _may_be_unknown(relation):
        return relation
    is_mark = relation.type is ir.JoinType.LEFT_MARK
    terms: list[ir.Expression] = []
    for filter_ in reversed(filters):
        conditions = conjuncts(filter_.condition)
        own = conjunction(term for term in conditions if not is_open(term))
        if own is not None:
            right = filtered(right, own, filter_.plan_path)
        between = [_over_both(term, len(relation.left.schema)) for term in conditions if is_open(term)]
        terms += map(_certainly, between) if is_mark else between
    if relation.condition is not None:
        terms += conjuncts(relation.condition)
    return ir.Join(
        left=relation.left,
        right=right,
        type=relation.type,
        condition=conjunction(terms),
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def _may_be_unknown(relation: ir.LateralJoin) -> bool:
    """Tests for a mark that may be null for a pair of rows. The join would look at every pair, also at those that the
    right side leaves out.
    """
    condition = relation.condition
    return relation.type is ir.JoinType.LEFT_MARK and condition is not None and condition.type.nullable


def _certainly(term: ir.Expression) -> ir.Expression:
    """The term with false in place of null, as filters take it."""
    return call("is_true", term) if term.type.nullable else term


def _over_both(term: ir.Expression, width: int) -> ir.Expression:
    """A term of a right row, which reads the left row as the innermost enclosing row, over the columns of both."""

    def change(part: ir.Expression) -> ir.Expression:
        if not isinstance(part, ir.Field):
            return part
        return replace(part, outer=part.outer - 1) if part.outer else replace(part, index=width + part.index)

    return transform(term, change)

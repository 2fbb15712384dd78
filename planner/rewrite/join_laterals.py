"""Makes joins of lateral joins whose right side only compares its rows with the left row.

DuckDB evaluates the right side of a lateral join for different left rows, which it holds in memory. The right side may
be filters over a relation that reads no left row. Then the filters' terms are terms of a join's condition: DuckDB
writes to disk what does not fit, and channels share the rows out by columns that must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .. import ir
from ..analysis.join_terms import Comparison, equality
from ..analysis.outer_references import OuterReferences
from ..functions.added_calls import call, conjunction
from ..ir import types as t
from ..ir.boolean import conjuncts
from ..ir.building import columns, filtered, project
from ..ir.visit import has, has_subquery, is_open, transform, transform_relations, with_positions

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
    if references.of(right).rows or relation.type not in _JOINED:
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
    condition = relation.condition
    if is_mark and condition is not None and condition.type.nullable:
        return _nullable_mark(relation, right, terms, condition)
    if condition is not None:
        terms += conjuncts(condition)
    return ir.Join(
        left=relation.left,
        right=right,
        type=relation.type,
        condition=conjunction(terms),
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


# ------------------------------------------------------------------------------------------- marks of three values


def _nullable_mark(
    relation: ir.LateralJoin, right: ir.Relation, terms: Sequence[ir.Expression], condition: ir.Expression
) -> ir.Relation:
    """The rows with a mark that may be null, from marks of two values: is there a right row that meets the condition,
    and is there one for which it is null? One join for a mark that may be null would look at every pair of rows, also
    at those that the right side leaves out.
    """
    if has_subquery(condition):
        return relation
    left, width = relation.left, len(relation.left.schema)
    rows = _marked(left, right, [*terms, *map(_certainly, conjuncts(condition))], left, relation.plan_path)
    hit = columns(rows.schema)[-1]
    pair = equality(condition, width)
    if pair is None:
        unknown = _marked(rows, right, [*terms, call("is_null", condition)], left, relation.plan_path)
    else:
        with_nulls, is_null = _with_nulls(right, pair, width)
        unknown = _marked(rows, with_nulls, [*terms, is_null], left, relation.plan_path)
    type_ = relation.schema[-1]
    literals = {value: ir.Literal(value=value, type=type_) for value in (True, None, False)}
    mark = ir.IfThen(
        clauses=((hit, literals[True]), (columns(unknown.schema)[-1], literals[None])),
        otherwise=literals[False],
        type=type_,
    )
    return project(unknown, (*columns(left.schema), mark), relation.plan_path)


def _with_nulls(right: ir.Relation, pair: Comparison, width: int) -> tuple[ir.Relation, ir.Expression]:
    """The right rows beside which an equality is null, and the term that says so of a pair. For a left row whose value
    is null these are all right rows, else those whose own value is null. So they are there with a flag, in one relation
    or two, and the term is that flags are equal: a hash finds the pairs.
    """
    plan_path, own = right.plan_path, columns(right.schema)
    truth = t.Boolean(nullable=False)
    nulls = filtered(right, call("is_null", pair.right), plan_path)
    flagged = [
        project(rows, (*own, ir.Literal(value=flag, type=truth)), plan_path)
        for rows, flag in ((right, True), (nulls, False))
    ]
    both = ir.Set(
        inputs=tuple(flagged), operation=ir.SetOperation.UNION_ALL, schema=flagged[0].schema, plan_path=plan_path
    )
    flag = ir.Field(index=width + len(own), type=truth)
    return both, call("equal", call("is_null", pair.left), flag)


def _marked(
    rows: ir.Relation, right: ir.Relation, terms: Sequence[ir.Expression], left: ir.Relation, plan_path: str
) -> ir.Join:
    """The rows, whose first columns are those of `left`, with a mark for a right row that meets all terms. The terms
    are over the columns of `left` and then of the right side.
    """
    width, more = len(left.schema), len(rows.schema) - len(left.schema)
    moved = (with_positions(term, lambda at: at if at < width else at + more) for term in terms)
    return ir.Join(
        left=rows,
        right=right,
        type=ir.JoinType.LEFT_MARK,
        condition=conjunction(moved),
        schema=(*rows.schema, t.Boolean(nullable=False)),
        plan_path=plan_path,
    )


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

"""Passes over an expression, and over the relations of a plan, for any rewrite. No pass recurses."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeGuard, TypeVar, cast

from .. import ir
from . import tree
from .walk import unroll

RelationT = TypeVar("RelationT", bound=ir.Relation)

Positions: TypeAlias = Mapping[int, int]
"""The moves of a row's columns: the old position of each remaining column to its new position."""


def parts(expression: ir.Expression) -> Iterator[ir.Expression]:
    """The expression and its parts, outermost first: all but literals, of which a list may have thousands, and the
    insides of a subquery's relation.
    """
    stack = [expression]
    while stack:
        part = stack.pop()
        yield part
        if type(part) not in tree.LEAVES:
            stack.extend([operand for operand in reversed(tree.operands(part)) if type(operand) is not ir.Literal])


def is_column(expression: object) -> TypeGuard[ir.Field]:
    """Tests whether an expression is a whole column of the row itself."""
    return isinstance(expression, ir.Field) and not expression.steps and not expression.outer


def is_open(expression: ir.Expression) -> bool:
    """Tests whether the expression reads an enclosing row, without the insides of subqueries."""
    return any(isinstance(part, ir.Field) and part.outer for part in parts(expression))


def subqueries_of(relation: ir.Relation) -> tuple[ir.Subquery, ...]:
    """The subqueries in the relation's own expressions, without those inside other subqueries' relations."""
    try:
        return relation.found_subqueries
    except AttributeError:
        inner = (subquery for expression in tree.expressions(relation) for subquery in subqueries(expression))
        return relation.keep("found_subqueries", tuple(inner))


def subqueries(expression: ir.Expression) -> Iterator[ir.Subquery]:
    """The subqueries in an expression, without those inside other subqueries' relations.

    Most parts of a large expression are leaves: these cost less than a step each.
    """
    stack = [expression]
    while stack:
        part = stack.pop()
        if isinstance(part, ir.Subquery):
            yield part
        stack.extend([operand for operand in reversed(tree.operands(part)) if type(operand) not in tree.LEAVES])


def has_subquery(expression: ir.Expression) -> bool:
    return next(subqueries(expression), None) is not None


def transform(expression: ir.Expression, change: Callable[[ir.Expression], ir.Expression]) -> ir.Expression:
    """The expression with `change` applied to every part, innermost first."""

    def step(part: ir.Expression) -> Generator[ir.Expression, ir.Expression, ir.Expression]:
        operands = []
        for operand in tree.operands(part):
            leaf = type(operand) in tree.LEAVES
            operands.append(change(operand) if leaf else (yield operand))
        return change(tree.with_operands(part, operands))

    return change(expression) if type(expression) in tree.LEAVES else unroll(step, expression)


def transform_relations(relation: ir.Relation, change: Callable[[ir.Relation], ir.Relation]) -> ir.Relation:
    """The relation with `change` applied to it and to every relation under it, those of subqueries too, innermost
    first.
    """

    def step(visited: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        return change((yield from rebuilt(visited)))

    return unroll(step, relation)


def rebuilt(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
    """The relation over the results for its inputs and its subqueries' relations: a part of a step of `unroll`."""
    inputs = []
    for below in tree.inputs(relation):
        inputs.append((yield below))  # noqa: PERF401 (a comprehension cannot yield)
    over = tree.with_inputs(relation, inputs)
    replaced: dict[ir.Relation, ir.Relation] = {}
    for subquery in subqueries_of(relation):
        replaced[subquery.relation] = yield subquery.relation
    return with_subqueries(over, replaced) if replaced else over


def with_subqueries(relation: ir.Relation, replaced: dict[ir.Relation, ir.Relation]) -> ir.Relation:
    """The relation with other relations in the subqueries of its own expressions. `replaced` is by the old relation."""

    def change(expression: ir.Expression) -> ir.Expression:
        if isinstance(expression, ir.Subquery) and replaced[expression.relation] is not expression.relation:
            return replace(expression, relation=replaced[expression.relation])
        return expression

    return tree.with_expressions(relation, (transform(expression, change) for expression in tree.expressions(relation)))


def relations(relation: ir.Relation) -> Iterator[ir.Relation]:
    """The relation and all relations below it, those of subqueries included, outermost first and left to right."""
    stack = [relation]
    while stack:
        visited = stack.pop()
        yield visited
        stack.extend(reversed(beneath(visited)))


def has(plan: ir.Plan, *kinds: type[ir.Relation]) -> bool:
    """Tests whether a plan has a relation of one of these kinds."""
    return any(isinstance(relation, kinds) for root in (plan.root, *plan.shared) for relation in relations(root))


def beneath(relation: ir.Relation) -> tuple[ir.Relation, ...]:
    """The relation's inputs, then the relations of its subqueries."""
    try:
        return relation.found_beneath
    except AttributeError:
        inner = [subquery.relation for subquery in subqueries_of(relation)]
        return relation.keep("found_beneath", (*tree.inputs(relation), *inner))


def with_positions(expression: ir.Expression, position_of: Callable[[int], int]) -> ir.Expression:
    """The expression over columns of its own row that have moved."""

    def change(part: ir.Expression) -> ir.Expression:
        if not isinstance(part, ir.Field) or part.outer:
            return part
        return replace(part, index=position_of(part.index))

    return transform(expression, change)


def moved(relation: RelationT, rows: Sequence[Positions], inner: Mapping[ir.Relation, ir.Relation]) -> RelationT:
    """The relation with its fields at the columns' new positions, and with the relations of its subqueries replaced.

    `inner` has the new relations by the old relation. `rows[0]` has the moves of the relation's own row, `rows[n]`
    those of the n-th enclosing row.
    """

    def change(expression: ir.Expression) -> ir.Expression:
        match expression:
            case ir.Field():
                index = rows[expression.outer][expression.index]
                return expression if index == expression.index else replace(expression, index=index)
            case ir.Subquery():
                new = inner[expression.relation]
                return expression if new is expression.relation else replace(expression, relation=new)
            case _:
                return expression

    changed = tree.with_expressions(
        relation, (transform(expression, change) for expression in tree.expressions(relation))
    )
    return cast("RelationT", changed)

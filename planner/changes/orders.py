"""Sorts and limits on changes. A sort alone means nothing, because changes come in canonical order; a limit takes the
first rows of its sort.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.changes.top import Counting
from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir.arrow_types import arrow_schema
from ..ir.building import columns
from ..ir.relations import MOST_ROWS
from ..ir.visit import is_column, subqueries, transform_relations
from .change_nodes import ChangeNode, DifferenceNode, TopNode
from .rowwise import compute, select


def sort_below_limits(relation: ir.Relation) -> ir.Relation:
    """The relation with a sort directly below each limit that keeps the first rows of an order.

    An order from further below passes through filters, projections and other limits.
    """
    return transform_relations(relation, _sort_below)


def _sort_below(relation: ir.Relation) -> ir.Relation:
    if not isinstance(relation, ir.Fetch) or isinstance(relation.input, ir.Sort):
        return relation
    projects: list[ir.Project] = []
    below: ir.Relation = relation.input
    while isinstance(below, ir.Project):
        projects.append(below)
        below = below.input
    keys = _order(below)
    if keys is None:
        return relation
    ordered: ir.Relation = below
    if not isinstance(below, ir.Sort):
        ordered = ir.Sort(input=below, keys=keys, schema=below.schema, plan_path=relation.plan_path)
    rebuilt: ir.Relation = replace(relation, input=ordered, schema=below.schema)
    for project in reversed(projects):
        rebuilt = replace(project, input=rebuilt)
    return rebuilt


def _order(relation: ir.Relation) -> tuple[ir.SortKey, ...] | None:
    """The sort keys of a relation's rows, if the rows are sorted."""
    while isinstance(relation, ir.Filter | ir.Fetch):
        relation = relation.input
    return relation.keys if isinstance(relation, ir.Sort | ir.TopN) else None


def lower_sort(relation: ir.Sort, node: ChangeNode, warnings: list[str]) -> ChangeNode:
    warnings.append(
        f"{relation.plan_path}: the sort is left out, because a continuous task gives changes in canonical order"
    )
    return node


def lower_fetch(relation: ir.Fetch, sort: ir.Sort, node: ChangeNode) -> ChangeNode:
    """A limit on sorted rows, ties broken by all columns."""
    return lower_top(top_of(relation, sort), node)


def top_of(relation: ir.Fetch, sort: ir.Sort) -> ir.TopN:
    """A limit on sorted rows as one relation."""
    return ir.TopN(
        input=sort.input,
        keys=sort.keys,
        offset=relation.offset,
        count=relation.count,
        ties=False,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def counts_by_subquery(relation: ir.Fetch | ir.TopN) -> bool:
    counts = (count for count in (relation.offset, relation.count) if count is not None)
    return any(next(subqueries(count), None) is not None for count in counts)


def ordered_by_all(relation: ir.Fetch | ir.TopN) -> ir.TopN:
    """The limit over its sort as one relation that can be computed again. Ties are broken by all columns, unless ties
    are wanted.
    """
    match relation:
        case ir.TopN():
            top = relation
        case ir.Fetch(input=ir.Sort() as sort):
            top = top_of(relation, sort)
        case ir.Fetch():
            raise PlanError(limit_without_order(relation))
    if top.ties:
        return top
    direction = ir.Direction.ASC_NULLS_LAST
    ties = (ir.SortKey(expression=column, direction=direction) for column in columns(top.input.schema))
    return replace(top, keys=(*top.keys, *ties))


def limit_without_order(relation: ir.Fetch) -> Problem:
    message = "a limit without a sort keeps the rows that come first, and changes have no order: sort below the limit"
    return Problem(place=relation.plan_path, reason="LIMIT_WITHOUT_SORT", message=message)


def lower_top(relation: ir.TopN, node: ChangeNode) -> ChangeNode:
    skipped, wanted = _number(relation.offset, relation.plan_path), _number(relation.count, relation.plan_path)
    counting = Counting.RANK if relation.ties and wanted else Counting.ROWS
    limit = Limit(skipped or 0, MOST_ROWS if wanted is None else wanted, counting)
    return first_rows(node, relation.input.schema, (), relation.keys, limit, relation.plan_path)


@dataclass(frozen=True, slots=True)
class Limit:
    """The number of rows of an order that a limit takes, the number that it skips, and the way they are counted."""

    offset: int
    count: int
    counting: Counting


def first_rows(
    node: ChangeNode,
    schema: ir.Schema,
    partitions: tuple[ir.Expression, ...],
    sorts: tuple[ir.SortKey, ...],
    limit: Limit,
    plan_path: str,
) -> ChangeNode:
    """The rows of each partition that the limit lets through. Without a count these are all rows but the first ones, so
    that the cost of a change follows the offset alone.
    """
    if limit.count < MOST_ROWS:
        return _top(node, schema, partitions, sorts, limit, plan_path)
    whole = select(node, tuple(range(len(schema))), schema, plan_path)
    if not limit.offset:
        return whole
    left_out = _top(node, schema, partitions, sorts, Limit(0, limit.offset, Counting.ROWS), plan_path)
    return DifferenceNode(left=whole, right=left_out, schema=arrow_schema(schema), plan_path=plan_path)


def _top(
    node: ChangeNode,
    schema: ir.Schema,
    partitions: tuple[ir.Expression, ...],
    sorts: tuple[ir.SortKey, ...],
    limit: Limit,
    plan_path: str,
) -> ChangeNode:
    wide: list[ir.Expression] = list(columns(schema))

    def at(expression: ir.Expression) -> int:
        if is_column(expression):
            return expression.index
        wide.append(expression)
        return len(wide) - 1

    key = tuple(map(at, partitions))
    orders = tuple(direction_of(at(sort.expression), sort.direction) for sort in sorts)
    rows = compute(node, schema, tuple(wide), plan_path)
    top = TopNode(
        input=rows,
        key=key,
        orders=orders,
        offset=limit.offset,
        count=limit.count,
        counting=limit.counting,
        schema=pa.schema([*(rows.schema.field(at) for at in key), *rows.schema]),
        plan_path=plan_path,
    )
    return select(top, tuple(range(len(key), len(key) + len(schema))), schema, plan_path)


def direction_of(column: int, direction: ir.Direction) -> Order:
    return Order(column=column, descending=direction.descending, nulls_first=direction.nulls_first)


def _number(expression: ir.Expression | None, plan_path: str) -> int | None:
    match expression:
        case None | ir.Literal(value=None):
            return None
        case ir.Literal(value=int(value)) if value >= 0:
            return value
        case _:
            message = "in a continuous task the offset and the count of a limit must be literal numbers from 0 on"
            raise PlanError(Problem(place=plan_path, reason="LIMIT_NOT_CONSTANT", message=message))

"""Sorts and limits: an order alone means nothing where changes come in canonical order, the first rows of one do."""

from __future__ import annotations

from ...operators.ordering import Order
from ...proto.errors import PlanError, Problem
from .. import ir
from ..visit import is_column
from .nodes import ChangeNode, TopNode
from .rendering import columns
from .rowwise import compute, select


def lower_sort(relation: ir.Sort, node: ChangeNode, warnings: list[str]) -> ChangeNode:
    warnings.append(
        f"{relation.place}: the sort is left out, since a continuous task gives out changes in their own order"
    )
    return node


def lower_fetch(relation: ir.Fetch, sort: ir.Sort, node: ChangeNode) -> ChangeNode:
    """A limit on sorted rows, ties broken by all columns."""
    return _first(node, sort.input.schema, sort.keys, relation.offset, relation.count, relation.place)


def lower_top(relation: ir.TopN, node: ChangeNode) -> ChangeNode:
    return _first(node, relation.input.schema, relation.keys, relation.offset, relation.count, relation.place)


def _first(
    node: ChangeNode,
    schema: ir.Schema,
    keys: tuple[ir.SortKey, ...],
    offset: ir.Expression | None,
    count: ir.Expression | None,
    place: str,
) -> ChangeNode:
    skipped, wanted = _number(offset, place), _number(count, place)
    computed = tuple(key.expression for key in keys if not is_column(key.expression))
    wide = compute(node, schema, (*columns(schema), *computed), place)
    places = iter(range(len(schema), len(schema) + len(computed)))
    orders = tuple(
        _order(key.expression.index if is_column(key.expression) else next(places), key.direction) for key in keys
    )
    top = TopNode(
        input=wide,
        key=(),
        orders=orders,
        offset=skipped or 0,
        count=(1 << 62) if wanted is None else wanted,
        schema=wide.schema,
        place=place,
    )
    return select(top, tuple(range(len(schema))), schema, place)


def _order(column: int, direction: ir.Direction) -> Order:
    return Order(column=column, descending=direction.descending, nulls_first=direction.nulls_first)


def _number(expression: ir.Expression | None, place: str) -> int | None:
    match expression:
        case None | ir.Literal(value=None):
            return None
        case ir.Literal(value=int(value)) if value >= 0:
            return value
        case _:
            message = "the offset and the count of a limit must be numbers, not negative, in a continuous task"
            raise PlanError(Problem(place=place, reason="LIMIT_NOT_CONSTANT", message=message))

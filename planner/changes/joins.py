"""Joins: all of them made of pairs, of the different keys of a side, and of what is left over.

What a left row needs to know of the right side is at most whether it has a match. Where only equal keys make one, that
is a join with the right side's different keys; else with the different left rows of the pairs. An outer join's rows
without a match are the side less those with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa

from ...operators.changes.join import JoinKey
from .. import ir
from ..sql.types import arrow_schema
from ..visit import parts
from .nodes import ChangeNode, ComputeNode, DifferenceNode, JoinNode, OnlyOneNode, PairCondition, SelectNode
from .rendering import columns
from .rowwise import compute, select
from .sets import distinct
from .sides import Sides, condition_of, condition_unknown, sides_of, sides_of_keys


def lower_cross(relation: ir.Cross, left: ChangeNode, right: ChangeNode) -> ChangeNode:
    sides = sides_of(relation, None, left, right)
    return _pairs(sides, relation.schema)


def lower_join(relation: ir.Join, left: ChangeNode, right: ChangeNode) -> ChangeNode:
    return _joined(sides_of(relation, relation.condition, left, right), relation.type, relation.schema)


def lower_merge_join(relation: ir.MergeJoin, left: ChangeNode, right: ChangeNode) -> ChangeNode:
    """Changes come in no order, so that its inputs are sorted makes no difference."""
    return _joined(sides_of_keys(relation, left, right), relation.type, relation.schema)


def _joined(sides: Sides, type_: ir.JoinType, schema: ir.Schema) -> ChangeNode:
    match type_:
        case ir.JoinType.INNER:
            return _pairs(sides, schema)
        case ir.JoinType.LEFT | ir.JoinType.RIGHT | ir.JoinType.OUTER:
            return _outer(sides, type_, schema)
        case ir.JoinType.LEFT_SEMI:
            return _matched(sides)
        case ir.JoinType.RIGHT_SEMI:
            return _matched(sides.swapped())
        case ir.JoinType.LEFT_ANTI:
            return _unmatched(sides)
        case ir.JoinType.RIGHT_ANTI:
            return _unmatched(sides.swapped())
        case ir.JoinType.LEFT_SINGLE:
            return _single(sides, schema)
        case ir.JoinType.RIGHT_SINGLE:
            return _turned(_single(sides.swapped(), _turned_schema(sides, schema)), sides, schema)
        case ir.JoinType.LEFT_MARK:
            return _marked(sides, schema)
        case ir.JoinType.RIGHT_MARK:
            return _marked(sides.swapped(), schema)
        case _:
            assert_never(type_)


def _pairs(sides: Sides, schema: ir.Schema) -> ChangeNode:
    left, right = len(sides.left_schema), len(sides.right_schema)
    width = len(sides.left.schema)
    return _join(sides, (*range(left), *range(width, width + right)), schema)


def _matched(sides: Sides) -> ChangeNode:
    """The left rows that have a match."""
    wanted = tuple(range(len(sides.left_schema)))
    if not sides.rest:
        keys = SelectNode(
            inputs=(sides.right,),
            columns=tuple(key.right for key in sides.keys),
            schema=pa.schema([sides.right.schema.field(key.right) for key in sides.keys]),
            place=sides.place,
        )
        there = distinct(keys, place=sides.place)
        join_keys = tuple(JoinKey(key.left, at, key.nulls_match) for at, key in enumerate(sides.keys))
        return _join_node(sides.left, there, join_keys, wanted, None, sides.left_schema, sides.place)
    rows = distinct(_join(sides, wanted, sides.left_schema), place=sides.place)
    whole = tuple(JoinKey(at, at, True) for at in wanted)
    return _join_node(sides.left, rows, whole, wanted, None, sides.left_schema, sides.place)


def _unmatched(sides: Sides) -> ChangeNode:
    return _less(sides, _matched(sides))


def _less(sides: Sides, rows: ChangeNode) -> ChangeNode:
    """The left rows but for these."""
    own = select(sides.left, tuple(range(len(sides.left_schema))), sides.left_schema, sides.place)
    return DifferenceNode(left=own, right=rows, schema=arrow_schema(sides.left_schema), place=sides.place)


def _outer(sides: Sides, type_: ir.JoinType, schema: ir.Schema) -> ChangeNode:
    left, right = len(sides.left_schema), len(sides.right_schema)
    found = [_pairs(sides, schema)]
    if type_ is not ir.JoinType.RIGHT:
        found.append(_padded(_unmatched(sides), (*range(left), *[None] * right), schema, sides.place))
    if type_ is not ir.JoinType.LEFT:
        found.append(_padded(_unmatched(sides.swapped()), (*[None] * left, *range(right)), schema, sides.place))
    return _all(found, schema, sides.place)


def _single(sides: Sides, schema: ir.Schema) -> ChangeNode:
    """A left row's match, of which there is at most one, or nulls."""
    own = select(sides.left, tuple(range(len(sides.left_schema))), sides.left_schema, sides.place)
    pairs = _pairs(sides, schema)
    checked = OnlyOneNode(pairs=pairs, left=own, schema=pairs.schema, place=sides.place)
    columns_ = (*range(len(sides.left_schema)), *[None] * len(sides.right_schema))
    return _all([checked, _padded(_unmatched(sides), columns_, schema, sides.place)], schema, sides.place)


def _turned_schema(sides: Sides, schema: ir.Schema) -> ir.Schema:
    left = len(sides.left_schema)
    return (*schema[left:], *schema[:left])


def _turned(node: ChangeNode, sides: Sides, schema: ir.Schema) -> ChangeNode:
    """Right columns first, put behind the left ones."""
    right = len(sides.right_schema)
    return select(node, (*range(right, len(schema)), *range(right)), schema, sides.place)


def _marked(sides: Sides, schema: ir.Schema) -> ChangeNode:
    """Each left row with whether it has a match: null if it has none but a pair for which that is unknown."""
    matched = _matched(sides)
    others = _less(sides, matched)
    unknown = _unknown(sides, others)
    found = [_with(matched, True, schema, sides)]
    if unknown is None:
        found.append(_with(others, False, schema, sides))
    else:
        known = DifferenceNode(left=others, right=unknown, schema=others.schema, place=sides.place)
        found += [_with(unknown, None, schema, sides), _with(known, False, schema, sides)]
    return _all(found, schema, sides.place)


def _unknown(sides: Sides, others: ChangeNode) -> ChangeNode | None:
    """Those of `others`, left rows, that have a pair for which the condition is null; None if it never is.

    It can only be null where a column is that it looks at: of either side, the rows with such a null meet all of the
    other side's.
    """
    condition = sides.condition
    if condition is None or not condition.type.nullable:
        return None
    left = len(sides.left_schema)
    used = {part.index for part in parts(condition) if isinstance(part, ir.Field) and part.type.nullable}
    mine = [at for at in used if at < left]
    theirs = [at - left for at in used if at >= left]
    wanted = tuple(range(left))
    right = select(sides.right, tuple(range(len(sides.right_schema))), sides.right_schema, sides.place)
    found: list[ChangeNode] = []
    for one, other in (
        (_with_nulls(others, sides.left_schema, mine, sides.place), right),
        (others, _with_nulls(right, sides.right_schema, theirs, sides.place)),
    ):
        if one is None or other is None:
            continue
        unknown = condition_unknown(sides, condition)
        found.append(_join_node(one, other, (), wanted, unknown, sides.left_schema, sides.place))
    if not found:
        return None
    rows = distinct(*found, place=sides.place)
    whole = tuple(JoinKey(at, at, True) for at in wanted)
    return _join_node(others, rows, whole, wanted, None, sides.left_schema, sides.place)


def _with_nulls(node: ChangeNode, schema: ir.Schema, places: Sequence[int], place: str) -> ChangeNode | None:
    """The rows with a null in one of these columns, if there are any such columns."""
    if not places:
        return None
    row = ", ".join(f"c{at}" for at in range(len(schema) + 1))
    null = " OR ".join(f"c{at} IS NULL" for at in sorted(places))
    sql = f"SELECT {row} FROM in0 WHERE {null}"
    return ComputeNode(input=node, sql=sql, schema=arrow_schema(schema), place=place)


def _with(node: ChangeNode, mark: bool | None, schema: ir.Schema, sides: Sides) -> ChangeNode:
    literal = ir.Literal(value=mark, type=schema[-1])
    return compute(node, sides.left_schema, (*columns(sides.left_schema), literal), sides.place)


def _padded(node: ChangeNode, wanted: Sequence[int | None], schema: ir.Schema, place: str) -> ChangeNode:
    return SelectNode(inputs=(node,), columns=tuple(wanted), schema=arrow_schema(schema), place=place)


def _all(nodes: Sequence[ChangeNode], schema: ir.Schema, place: str) -> ChangeNode:
    return SelectNode(inputs=tuple(nodes), columns=tuple(range(len(schema))), schema=arrow_schema(schema), place=place)


def _join(sides: Sides, output: Sequence[int], schema: ir.Schema) -> ChangeNode:
    condition = condition_of(sides, len(sides.left.schema)) if sides.rest else None
    return _join_node(sides.left, sides.right, sides.keys, tuple(output), condition, schema, sides.place)


def _join_node(
    left: ChangeNode,
    right: ChangeNode,
    keys: tuple[JoinKey, ...],
    output: tuple[int, ...],
    condition: PairCondition | None,
    schema: ir.Schema,
    place: str,
) -> ChangeNode:
    return JoinNode(
        left=left,
        right=right,
        keys=keys,
        output=output,
        condition=condition,
        schema=arrow_schema(schema),
        place=place,
    )

"""Joins on changes, all made of pairs, of the different keys of a side, and of unmatched rows.

A left row needs to know at most whether it has a match. If only equal keys make a match, that is a join with the right
side's different keys; else it is a join with the different left rows of the pairs. An outer join's unmatched rows are
the side's rows without the matched rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa

from ...operators.changes.join import JoinKey
from .. import ir
from ..ir.arrow_types import arrow_schema
from ..ir.building import columns
from ..ir.visit import parts
from .bounds import matched_by_bound
from .change_nodes import ChangeNode, ComputeNode, DifferenceNode, JoinNode, OnlyOneNode, PairCondition, SelectNode
from .rowwise import compute, select
from .sets import distinct
from .sides import Sides, condition_of, condition_unknown, null_only_of_columns, sides_of, sides_of_keys


def lower_cross(relation: ir.Cross, left: ChangeNode, right: ChangeNode) -> ChangeNode:
    sides = sides_of(relation, None, left, right)
    return _pairs(sides, relation.schema)


def lower_join(relation: ir.Join, left: ChangeNode, right: ChangeNode) -> ChangeNode:
    return _joined(sides_of(relation, relation.condition, left, right), relation.type, relation.schema)


def lower_merge_join(relation: ir.MergeJoin, left: ChangeNode, right: ChangeNode) -> ChangeNode:
    """A merge join. Changes come in no order, so the order of its inputs makes no difference."""
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
        return _having(sides.left, sides.right, sides.keys, sides)
    bound = matched_by_bound(sides)
    if bound is not None:
        return bound
    rows = distinct(_join(sides, wanted, sides.left_schema), plan_path=sides.plan_path)
    whole = tuple(JoinKey(at, at, True) for at in wanted)
    return _join_node(sides.left, rows, whole, wanted, None, sides.left_schema, sides.plan_path)


def _having(left: ChangeNode, right: ChangeNode, keys: Sequence[JoinKey], sides: Sides) -> ChangeNode:
    """The rows of `left` that have a row of `right` with equal keys, without the columns that hold computed keys."""
    columns_ = tuple(key.right for key in keys)
    schema = pa.schema([right.schema.field(at) for at in columns_])
    there = distinct(
        SelectNode(inputs=(right,), columns=columns_, schema=schema, plan_path=sides.plan_path),
        plan_path=sides.plan_path,
    )
    join_keys = tuple(JoinKey(key.left, at, key.nulls_match) for at, key in enumerate(keys))
    wanted = tuple(range(len(sides.left_schema)))
    return _join_node(left, there, join_keys, wanted, None, sides.left_schema, sides.plan_path)


def _unmatched(sides: Sides) -> ChangeNode:
    return _less(sides, _matched(sides))


def _less(sides: Sides, rows: ChangeNode) -> ChangeNode:
    """The left rows without these rows."""
    own = select(sides.left, tuple(range(len(sides.left_schema))), sides.left_schema, sides.plan_path)
    return DifferenceNode(left=own, right=rows, schema=arrow_schema(sides.left_schema), plan_path=sides.plan_path)


def _outer(sides: Sides, type_: ir.JoinType, schema: ir.Schema) -> ChangeNode:
    left, right = len(sides.left_schema), len(sides.right_schema)
    nodes = [_pairs(sides, schema)]
    if type_ is not ir.JoinType.RIGHT:
        nodes.append(padded(_unmatched(sides), (*range(left), *[None] * right), schema, sides.plan_path))
    if type_ is not ir.JoinType.LEFT:
        nodes.append(padded(_unmatched(sides.swapped()), (*[None] * left, *range(right)), schema, sides.plan_path))
    return all_of(nodes, schema, sides.plan_path)


def _single(sides: Sides, schema: ir.Schema) -> ChangeNode:
    """Each left row's match, of which there is at most one, or nulls."""
    own = select(sides.left, tuple(range(len(sides.left_schema))), sides.left_schema, sides.plan_path)
    pairs = _pairs(sides, schema)
    checked = OnlyOneNode(pairs=pairs, left=own, schema=pairs.schema, plan_path=sides.plan_path)
    columns_ = (*range(len(sides.left_schema)), *[None] * len(sides.right_schema))
    return all_of([checked, padded(_unmatched(sides), columns_, schema, sides.plan_path)], schema, sides.plan_path)


def _turned_schema(sides: Sides, schema: ir.Schema) -> ir.Schema:
    left = len(sides.left_schema)
    return (*schema[left:], *schema[:left])


def _turned(node: ChangeNode, sides: Sides, schema: ir.Schema) -> ChangeNode:
    """The rows with the right columns, which come first, put behind the left columns."""
    right = len(sides.right_schema)
    return select(node, (*range(right, len(schema)), *range(right)), schema, sides.plan_path)


def _marked(sides: Sides, schema: ir.Schema) -> ChangeNode:
    """Each left row with its mark. The mark is null if the row has no match but a pair for which the match is
    unknown.
    """
    matched = _matched(sides)
    others = _less(sides, matched)
    unknown = _unknown(sides, others)
    nodes = [_with(matched, True, schema, sides)]
    if unknown is None:
        nodes.append(_with(others, False, schema, sides))
    else:
        known = DifferenceNode(left=others, right=unknown, schema=others.schema, plan_path=sides.plan_path)
        nodes += [_with(unknown, None, schema, sides), _with(known, False, schema, sides)]
    return all_of(nodes, schema, sides.plan_path)


def _unknown(sides: Sides, others: ChangeNode) -> ChangeNode | None:
    """The left rows among `others` that have a pair for which the condition is null; None if the condition never is.

    Most conditions can only be null if a column that they read is null: then only the pairs of rows with such nulls are
    looked at. Keys that are sure to be equal or not are equal for such a pair as for any pair.
    """
    condition = sides.condition
    if condition is None or not condition.type.nullable:
        return None
    left = len(sides.left_schema)
    if len(sides.unsure) == 1 and not sides.rest and all(key.left < left for key in sides.keys):
        return _unknown_by_key(sides, others)
    used = {part.index for part in parts(condition) if isinstance(part, ir.Field) and part.type.nullable}
    mine = [at for at in used if at < left]
    theirs = [at - left for at in used if at >= left]
    wanted = tuple(range(left))
    own = select(sides.right, tuple(range(len(sides.right_schema))), sides.right_schema, sides.plan_path)
    right = distinct(own, plan_path=sides.plan_path)
    pairs: list[tuple[ChangeNode | None, ChangeNode | None]] = [(others, right)]
    if null_only_of_columns(condition):
        pairs = [
            (_with_nulls(others, mine, sides.plan_path), right),
            (others, _with_nulls(right, theirs, sides.plan_path)),
        ]
    nodes: list[ChangeNode] = []
    for one, other in pairs:
        if one is None or other is None:
            continue
        unknown = condition_unknown(sides, condition)
        nodes.append(_join_node(one, other, _sure_columns(sides), wanted, unknown, sides.left_schema, sides.plan_path))
    if not nodes:
        return None
    rows = distinct(*nodes, plan_path=sides.plan_path)
    whole = tuple(JoinKey(at, at, True) for at in wanted)
    return _join_node(others, rows, whole, wanted, None, sides.left_schema, sides.plan_path)


def _sure_columns(sides: Sides) -> tuple[JoinKey, ...]:
    """The keys whose equality is never null, if both sides' keys are plain columns."""
    return tuple(
        key
        for at, key in enumerate(sides.keys)
        if at not in sides.unsure and key.left < len(sides.left_schema) and key.right < len(sides.right_schema)
    )


def _unknown_by_key(sides: Sides, others: ChangeNode) -> ChangeNode:
    """The same for a condition that is an equality besides sure keys: a row with a null meets any row, and any row
    meets a row with a null.
    """
    key = sides.keys[sides.unsure[0]]
    sure = [column for at, column in enumerate(sides.keys) if at not in sides.unsure]
    of_null = _with_nulls(sides.right, [key.right], sides.plan_path)
    nulls = _with_nulls(others, [key.left], sides.plan_path)
    assert of_null is not None
    assert nulls is not None
    values = DifferenceNode(left=others, right=nulls, schema=others.schema, plan_path=sides.plan_path)
    nodes = [_having(nulls, sides.right, sure, sides), _having(values, of_null, sure, sides)]
    return all_of(nodes, sides.left_schema, sides.plan_path)


def _with_nulls(node: ChangeNode, positions: Sequence[int], plan_path: str) -> ChangeNode | None:
    """The rows with a null in one of these columns; None if there are no such columns."""
    if not positions:
        return None
    row = ", ".join(f"c{at}" for at in range(len(node.schema) + 1))
    null = " OR ".join(f"c{at} IS NULL" for at in sorted(positions))
    return ComputeNode(input=node, sql=f"SELECT {row} FROM in0 WHERE {null}", schema=node.schema, plan_path=plan_path)


def _with(node: ChangeNode, mark: bool | None, schema: ir.Schema, sides: Sides) -> ChangeNode:
    literal = ir.Literal(value=mark, type=schema[-1])
    return compute(node, sides.left_schema, (*columns(sides.left_schema), literal), sides.plan_path)


def padded(node: ChangeNode, wanted: Sequence[int | None], schema: ir.Schema, plan_path: str) -> ChangeNode:
    """The rows with these columns; None is a column of nulls."""
    return SelectNode(inputs=(node,), columns=tuple(wanted), schema=arrow_schema(schema), plan_path=plan_path)


def all_of(nodes: Sequence[ChangeNode], schema: ir.Schema, plan_path: str) -> ChangeNode:
    """The rows of all nodes."""
    return SelectNode(
        inputs=tuple(nodes), columns=tuple(range(len(schema))), schema=arrow_schema(schema), plan_path=plan_path
    )


def _join(sides: Sides, output: Sequence[int], schema: ir.Schema) -> ChangeNode:
    condition = condition_of(sides, len(sides.left.schema)) if sides.rest else None
    return _join_node(sides.left, sides.right, sides.keys, tuple(output), condition, schema, sides.plan_path)


def _join_node(
    left: ChangeNode,
    right: ChangeNode,
    keys: tuple[JoinKey, ...],
    output: tuple[int, ...],
    condition: PairCondition | None,
    schema: ir.Schema,
    plan_path: str,
) -> ChangeNode:
    return JoinNode(
        left=left,
        right=right,
        keys=keys,
        output=output,
        condition=condition,
        schema=arrow_schema(schema),
        plan_path=plan_path,
    )

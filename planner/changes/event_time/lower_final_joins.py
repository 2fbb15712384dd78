"""Final joins of rows whose times are near each other: late rows are taken out, and rows are let go in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ....operators.changes.event_time.interval_closing import IntervalClosing
from ....operators.changes.join import JoinKey
from ... import ir
from ...ir.arrow_types import arrow_schema
from ...ir.building import INT64, columns, project
from ...ir.visit import with_positions
from ...rewrite.as_of_joins import as_of
from ...sql.relations.sliding_aggregate import floor_division
from ..change_nodes import ChangeNode, ComputeNode, FinalAsOfNode, FinalMatchesNode, JoinNode, OnTimeNode
from ..joins import all_of, padded
from ..rendering import leaf, render
from ..rowwise import lower_chain, rising_columns

_OF_LEFT: Final = frozenset({ir.JoinType.LEFT_SEMI, ir.JoinType.LEFT_ANTI})
_OF_RIGHT: Final = frozenset({ir.JoinType.RIGHT_SEMI, ir.JoinType.RIGHT_ANTI})
_SEMI: Final = frozenset({ir.JoinType.LEFT_SEMI, ir.JoinType.RIGHT_SEMI})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timed:
    """The rows of a side behind their ticks, and with `marks` before the watermarks at the rows."""

    node: ChangeNode
    types: ir.Schema
    marks: bool


def timed(rows: ir.Relation, tick: ir.Expression, node: ChangeNode, *, marks: bool) -> Timed:
    """The rows of a relation that `node` gives, with the watermarks at them if it has `marks`."""
    below = (*rows.schema, INT64) if marks else rows.schema
    base = leaf(below, rows.plan_path)
    expressions = (tick, *columns(below))
    wide = project(base, expressions)
    return Timed(node=lower_chain(wide, base, node), types=wide.schema[: 1 + len(rows.schema)], marks=marks)


def ticks_of_sides(relation: ir.IntervalJoin | ir.AsOfJoin) -> tuple[ir.Expression, ir.Expression]:
    """The tick of a left row, and that of a right row over the right columns alone."""
    left, right = relation.marks
    width = len(relation.left.schema)
    return left, with_positions(right, lambda at: at - width)


def lower_final_join(relation: ir.IntervalJoin, left: Timed, right: Timed) -> ChangeNode:
    """The join: pairs come when both rows have come, rows without a match when none can come."""
    rows = _on_time(relation, left, right), _on_time(relation, right, left)
    width, other = len(left.types), len(right.types)
    lefts, rights = range(1, width), range(width + 1, width + other)
    match relation.type:
        case ir.JoinType.INNER:
            return _pairs(relation, rows, (left, right), (*lefts, *rights))
        case type_ if type_ in _OF_LEFT | _OF_RIGHT:
            of_left = type_ in _OF_LEFT
            wide = range(width) if of_left else range(width, width + other)
            pairs = _pairs(relation, rows, (left, right), tuple(wide))
            return _matches(relation, rows, pairs, of_left=of_left, matched=type_ in _SEMI)
        case _:
            return _outer(relation, rows, (left, right))


def lower_final_as_of(relation: ir.AsOfJoin, left: Timed, right: Timed) -> ChangeNode:
    """The as-of join: a left row comes when no right row that is not later can come."""
    width = len(relation.left.schema)
    leaves = tuple(leaf(side.types, relation.plan_path) for side in (left, right, right))
    plain = (project(base, columns(base.schema)[1:], relation.plan_path) for base in leaves)
    return FinalAsOfNode(
        left=_on_time(relation, left, right),
        right=_on_time(relation, right, left),
        keys=tuple(JoinKey(1 + mine.index, 1 + theirs.index - width) for mine, theirs in relation.keys),
        tolerance=relation.tolerance,
        closing=relation.closing,
        sql=render(as_of(relation, *plain), leaves),
        schema=arrow_schema(relation.schema),
        plan_path=relation.plan_path,
    )


def _outer(relation: ir.IntervalJoin, rows: tuple[OnTimeNode, OnTimeNode], sides: tuple[Timed, Timed]) -> ChangeNode:
    left, right = sides
    width, other = len(left.types), len(right.types)
    schema, plan_path = relation.schema, relation.plan_path
    both = _pairs(relation, rows, sides, tuple(range(width + other)))
    nodes = [padded(both, (*range(1, width), *range(width + 1, width + other)), schema, plan_path)]
    if relation.type is not ir.JoinType.RIGHT:
        pairs = padded(both, tuple(range(width)), left.types, plan_path)
        unmatched = _matches(relation, rows, pairs, of_left=True, matched=False)
        nodes.append(padded(unmatched, (*range(width - 1), *[None] * (other - 1)), schema, plan_path))
    if relation.type is not ir.JoinType.LEFT:
        pairs = padded(both, tuple(range(width, width + other)), right.types, plan_path)
        unmatched = _matches(relation, rows, pairs, of_left=False, matched=False)
        nodes.append(padded(unmatched, (*[None] * (width - 1), *range(other - 1)), schema, plan_path))
    return all_of(nodes, schema, plan_path)


def _on_time(relation: ir.IntervalJoin | ir.AsOfJoin, rows: Timed, beside: Timed) -> OnTimeNode:
    """The rows of a side that are on time. The watermark of the other side counts, too."""
    return OnTimeNode(
        input=rows.node,
        closing=relation.closing,
        output=range(len(rows.types)),
        marked=rows.marks,
        late=False,
        schema=arrow_schema(rows.types),
        plan_path=relation.plan_path,
        beside=beside.node,
    )


def _pairs(
    relation: ir.IntervalJoin,
    rows: tuple[OnTimeNode, OnTimeNode],
    sides: tuple[Timed, Timed],
    output: tuple[int, ...],
) -> JoinNode:
    closing, first = relation.closing, len(sides[0].types)
    keys = [JoinKey(1 + mine.index, 2 + theirs.index - first) for mine, theirs in relation.keys]
    left, right = rows
    types = (*sides[0].types, *sides[1].types)
    schema = arrow_schema([types[at] for at in output])
    if closing.before == closing.after == 0:
        pair: tuple[ChangeNode, ChangeNode] = left, right
        keys.append(JoinKey(0, 0))
    else:
        pair = _with_stretches(rows, (sides[0].types, sides[1].types), closing)
        keys.append(JoinKey(first, len(sides[1].types)))
        output = tuple(at if at < first else at + 1 for at in output)
    return JoinNode(
        left=pair[0],
        right=pair[1],
        keys=tuple(keys),
        output=output,
        condition=None,
        schema=schema,
        plan_path=relation.plan_path,
        closing=closing,
    )


def _with_stretches(
    rows: tuple[ChangeNode, ChangeNode], types: tuple[ir.Schema, ir.Schema], closing: IntervalClosing
) -> tuple[ChangeNode, ChangeNode]:
    """The rows with the number of a stretch of time behind their columns. A right row is in one stretch. A left row
    comes for each stretch with ticks that it can match, one or two. So rows that are far apart do not meet.
    """
    length = closing.before + closing.after + 1
    ends = (f"(CAST(c0 AS HUGEINT) + {after})" for after in (-closing.before, closing.after))
    first, last = (f"TRY_CAST({floor_division(end, length)} AS BIGINT)" for end in ends)
    both = f"unnest(CASE WHEN {first} IS NOT DISTINCT FROM {last} THEN [{first}] ELSE [{first}, {last}] END)"
    left, right = rows
    return _behind(left, types[0], both), _behind(right, types[1], floor_division("c0", length))


def _behind(rows: ChangeNode, types: ir.Schema, value: str) -> ComputeNode:
    """The rows with a number behind their columns."""
    width = len(rows.schema)
    columns_ = ", ".join(f"c{at}" for at in range(width))
    return ComputeNode(
        input=rows,
        sql=f"SELECT {columns_}, {value}, c{width} FROM in0",
        schema=rows.schema.append(pa.field(f"c{width}", pa.int64())),
        plan_path=rows.plan_path,
        rising=rising_columns(types),
    )


def _matches(
    relation: ir.IntervalJoin,
    rows: tuple[OnTimeNode, OnTimeNode],
    pairs: ChangeNode,
    *,
    of_left: bool,
    matched: bool,
) -> FinalMatchesNode:
    """The rows of one side that have a match, or that have none."""
    side = relation.left if of_left else relation.right
    return FinalMatchesNode(
        rows=rows[0 if of_left else 1],
        pairs=pairs,
        closing=relation.closing,
        left=of_left,
        matched=matched,
        schema=arrow_schema(side.schema),
        plan_path=relation.plan_path,
    )

"""Turns joins and aggregates over sorted rows into operators that stream: merge joins and streaming aggregates. It is
the last pass over a plan; no column moves after it.

- A merge join replaces an equi-join whose two inputs are sorted by all columns that have to be equal, in the same
  order and directions. A join that the plan itself calls a merge join needs only the first of these columns sorted;
  the other columns are then a condition on pairs. If its inputs are not known to be sorted it is a join like any
  other, with the same rows.
- A streaming aggregate replaces an aggregate with one grouping set whose keys are the columns by which the input is
  sorted first, in any order.

A relation that reads the row of an enclosing query stays in that query's fragment. A relation also stays if it would
stand on more than `NESTED` such operators: each operator asks the one below it for rows, on one stack.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Final

from .. import ir
from ..analysis.join_terms import equality
from ..analysis.outer_references import OuterReferences
from ..ir import tree
from ..ir import types as t
from ..ir.boolean import conjuncts, with_conjuncts
from ..ir.visit import has, is_column, parts, subqueries_of, with_subqueries
from ..ir.walk import unroll
from .sortedness import Sortedness, SortednessTable

NESTED: Final = 32
"""The most operators, one on top of the other."""


def use_sorted_operators(plan: ir.Plan) -> ir.Plan:
    if not has(plan, ir.Join, ir.Aggregate):
        return plan
    choosing = _Choosing()
    shared = tuple(unroll(choosing.step, relation) for relation in plan.shared)
    return replace(plan, root=unroll(choosing.step, plan.root), shared=shared)


class _Choosing:
    def __init__(self) -> None:
        self._sorted = SortednessTable()
        self._references = OuterReferences()
        self._done: dict[ir.Relation, ir.Relation] = {}
        self._heights: dict[ir.Relation, int] = {}

    def step(self, relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        """The relation with operators chosen in it and below it. A relation that is used twice is visited once."""
        done = self._done.get(relation)
        if done is None:
            done = self._done[relation] = yield from self._chosen(relation)
        return done

    def _chosen(self, relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        below = []
        for side, child in enumerate(tree.inputs(relation)):
            lateral = isinstance(relation, ir.LateralJoin) and side == 1
            below.append(child if lateral else (yield child))
        inner: dict[ir.Relation, ir.Relation] = {}
        for subquery in subqueries_of(relation):
            closed = self._references.of(subquery.relation).closed
            inner[subquery.relation] = (yield subquery.relation) if closed else subquery.relation
        rebuilt = tree.with_inputs(relation, below)
        if inner:
            rebuilt = with_subqueries(rebuilt, inner)
        height = max((self._heights.get(child, 0) for child in (*below, *inner.values())), default=0)
        chosen = self._operator(rebuilt) if height < NESTED else None
        result = chosen or rebuilt
        self._heights[result] = height + (chosen is not None)
        return result

    def _operator(self, relation: ir.Relation) -> ir.MergeJoin | ir.StreamingAggregate | None:
        match relation:
            case ir.Join():
                return merge_join(relation, self._sorted.of(relation.left), self._sorted.of(relation.right))
            case ir.Aggregate():
                return streaming_aggregate(relation, self._sorted.of(relation.input))
            case _:
                return None


# ------------------------------------------------------------------------------------------------------ joins


def merge_join(relation: ir.Join, left: Sortedness, right: Sortedness) -> ir.MergeJoin | None:
    """The join as a merge join; None if its inputs' order does not allow that."""
    if relation.condition is None or relation.type.marks:
        return None
    if relation.algorithm not in (ir.JoinAlgorithm.ANY, ir.JoinAlgorithm.MERGE):
        return None
    terms = conjuncts(relation.condition)
    pairs = {at: pair for at, term in enumerate(terms) if (pair := _pair(term, len(relation.left.schema))) is not None}
    keys = _merge_keys(pairs, left, right)
    if not keys or (len(keys) < len(pairs) and relation.algorithm is not ir.JoinAlgorithm.MERGE):
        return None
    rest = [term for at, term in enumerate(terms) if at not in keys]
    if not all(map(_sees_pairs_alone, rest)):
        return None
    return ir.MergeJoin(
        left=relation.left,
        right=relation.right,
        type=relation.type,
        keys=tuple(keys.values()),
        condition=with_conjuncts(relation.condition, rest) if rest else None,
        why=(left.why, right.why),
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def _pair(term: ir.Expression, width: int) -> tuple[int, int, bool] | None:
    """The columns, left and right, that have to be equal, and whether a null equals another null."""
    pair = equality(term, width)
    if pair is None or pair.columns is None or not pair.of_one_type or not isinstance(pair.left.type, t.IN_ORDER):
        return None
    return (*pair.columns, pair.nulls_match)


def _merge_keys(pairs: dict[int, tuple[int, int, bool]], left: Sortedness, right: Sortedness) -> dict[int, ir.MergeKey]:
    """The merge keys, by their terms' numbers: as many of the pairs as both sides are sorted by in the same way."""
    keys: dict[int, ir.MergeKey] = {}
    of_column: dict[int, list[int]] = {}
    for at, (one, _, _) in pairs.items():
        of_column.setdefault(one, []).append(at)
    for mine, other in zip(left.by, right.by, strict=False):
        if mine.direction is not other.direction or mine.direction is ir.Direction.CLUSTERED:
            break
        possible = (at for one in mine.columns for at in of_column.get(one, ()))
        fitting = [at for at in possible if at not in keys and pairs[at][1] in other.columns]
        if not fitting:
            break
        first = min(fitting)
        one, two, nulls_match = pairs[first]
        keys[first] = ir.MergeKey(left=one, right=two, direction=mine.direction, nulls_match=nulls_match)
    return keys


def _sees_pairs_alone(term: ir.Expression) -> bool:
    """Tests whether the term reads only a row of each side."""
    for part in parts(term):
        if isinstance(part, ir.Subquery | ir.ContextVariable) or (isinstance(part, ir.Field) and part.outer):
            return False
    return True


# ------------------------------------------------------------------------------------------------- aggregates


def streaming_aggregate(relation: ir.Aggregate, below: Sortedness) -> ir.StreamingAggregate | None:
    """The aggregate as a streaming aggregate; None if rows of a group do not stand together."""
    if not relation.keys or relation.grouping_sets != (tuple(range(len(relation.keys))),):
        return None
    keys = [key for key in relation.keys if is_column(key)]
    expressions = tree.expressions(relation)
    if len(keys) < len(relation.keys) or not all(map(_sees_pairs_alone, expressions)):
        return None
    wanted = {key.index for key in keys}
    order: list[ir.ColumnOrder] = []
    checked = True
    for sorted_by in below.by:
        shared = sorted_by.columns & wanted
        if not shared:
            break
        column = min(shared)
        sortable = isinstance(relation.input.schema[column], t.IN_ORDER)
        checked &= sorted_by.direction is not ir.Direction.CLUSTERED and sortable
        if checked:
            order.append(ir.ColumnOrder(column=column, direction=sorted_by.direction))
        wanted -= shared
    if wanted:
        return None
    return ir.StreamingAggregate(
        input=relation.input,
        keys=tuple(keys),
        measures=relation.measures,
        order=tuple(order),
        why=below.why,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )

"""Aggregates only the groups that a join asks for.

Producers turn a correlated subquery into a join with an aggregate over the whole table. If the join's other side is
selective, and the join drops aggregate rows without a partner, groups with other keys need not be made: the other side
is computed once, as a shared relation, and a semi join first reduces the aggregate's input to the other side's keys.

Groups keep all their rows, in order, so measures are the same, float bits included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from .. import ir
from ..analysis.join_terms import equality
from ..analysis.outer_references import OuterReferences
from ..analysis.selective_tests import SELECTIVE
from ..ir.boolean import conjuncts, is_and
from ..ir.building import columns, project
from ..ir.visit import has, is_column, relations, transform_relations

_STEPS: Final = 6
"""The most projections and filters between the join and the aggregate."""

_LOOK: Final = 64
"""The most relations of the other side in which the pass looks for a selective filter: a bound that keeps the pass
linear.
"""


def reduce_aggregates(plan: ir.Plan) -> ir.Plan:
    if not has(plan, ir.Aggregate):
        return plan
    reducing = _Reducing(list(plan.shared))
    root = transform_relations(plan.root, reducing.change)
    return replace(plan, root=root, shared=tuple(reducing.shared))


@dataclass(frozen=True, slots=True)
class _Pair:
    """One equality of the join: a column of the other side, and the key that must equal it."""

    equality: ir.Call
    asked: ir.Field
    output: int


class _Reducing:
    def __init__(self, shared: list[ir.Relation]) -> None:
        self.shared = shared
        self._references = OuterReferences()

    def change(self, relation: ir.Relation) -> ir.Relation:
        match relation:
            case ir.Join(type=ir.JoinType.INNER | ir.JoinType.LEFT_SEMI, condition=condition) if condition is not None:
                pairs = _equalities(relation, condition, aggregate_is_right=True)
                side = self._reduced(relation.right, relation.left, pairs, condition)
                if side is not None:
                    return replace(relation, left=self._last(relation.left), right=side)
        match relation:
            case ir.Join(type=ir.JoinType.INNER | ir.JoinType.RIGHT_SEMI, condition=condition) if condition is not None:
                pairs = _equalities(relation, condition, aggregate_is_right=False)
                side = self._reduced(relation.left, relation.right, pairs, condition)
                if side is not None:
                    return replace(relation, left=side, right=self._last(relation.right))
        return relation

    def _last(self, other: ir.Relation) -> ir.Shared:
        return ir.Shared(ordinal=len(self.shared) - 1, schema=other.schema, plan_path=other.plan_path)

    def _reduced(
        self, side: ir.Relation, other: ir.Relation, pairs: Sequence[_Pair], condition: ir.Expression
    ) -> ir.Relation | None:
        """`side` with its aggregate's input reduced, and `other` as the last of the shared relations."""
        path, aggregate = _path(side)
        if aggregate is None or len(aggregate.grouping_sets) != 1 or len(self.shared) >= ir.MOST_SHARED:
            return None
        keys = [(pair, key) for pair in pairs if (key := _key(path, aggregate, pair.output)) is not None]
        if not keys or not _is_selective(other) or not self._references.of(other).closed:
            return None
        self.shared.append(other)
        reduced: ir.Relation = replace(aggregate, input=_semi_join(aggregate, keys, self._last(other), condition))
        for above in reversed(path):
            reduced = replace(above, input=reduced)
        return reduced


def _equalities(join: ir.Join, condition: ir.Expression, *, aggregate_is_right: bool) -> list[_Pair]:
    pairs = []
    for term in conjuncts(condition):
        pair = equality(term, len(join.left.schema))
        if pair is None or pair.nulls_match or not pair.of_one_type:
            continue
        if not is_column(pair.left) or not is_column(pair.right):
            continue
        asked, key = (pair.left, pair.right) if aggregate_is_right else (pair.right, pair.left)
        pairs.append(_Pair(pair.term, asked, key.index))
    return pairs


def _path(side: ir.Relation) -> tuple[list[ir.Project | ir.Filter], ir.Aggregate | None]:
    path: list[ir.Project | ir.Filter] = []
    while isinstance(side, ir.Project | ir.Filter) and len(path) < _STEPS:
        path.append(side)
        side = side.input
    return path, side if isinstance(side, ir.Aggregate) else None


def _key(path: Sequence[ir.Project | ir.Filter], aggregate: ir.Aggregate, output: int) -> ir.Field | None:
    """The input's column behind column `output` above the path, if that column is a key."""
    for relation in path:
        if isinstance(relation, ir.Project):
            picked = relation.expressions[output]
            if not is_column(picked):
                return None
            output = picked.index
    key = aggregate.keys[output] if output in aggregate.grouping_sets[0] else None
    return key if is_column(key) else None


def _is_selective(relation: ir.Relation) -> bool:
    """Tests whether a filter below picks rows by equality, by pattern or from a list."""
    return any(_picks(term) for term in _filter_terms(islice(relations(relation), _LOOK)))


def _filter_terms(nodes: Iterator[ir.Relation]) -> Iterator[ir.Expression]:
    for relation in nodes:
        if isinstance(relation, ir.Filter):
            yield from conjuncts(relation.condition)


def _picks(term: ir.Expression) -> bool:
    if isinstance(term, ir.OneOf):
        return True
    if not isinstance(term, ir.Call) or term.function.name not in SELECTIVE:
        return False
    return any(isinstance(argument, ir.Literal) for argument in term.arguments)


def _semi_join(
    aggregate: ir.Aggregate, keys: Sequence[tuple[_Pair, ir.Field]], other: ir.Shared, condition: ir.Expression
) -> ir.Join:
    """The aggregate's input with only the keys that `other` has; `condition` is the join's own."""
    below = aggregate.input
    asked = project(other, [pair.asked for pair, _ in keys], aggregate.plan_path)
    equalities = tuple(
        replace(pair.equality, arguments=(key, column))
        for (pair, key), column in zip(keys, columns(asked.schema, len(below.schema)), strict=True)
    )
    asked_for: ir.Expression = equalities[0]
    if len(equalities) > 1 and is_and(condition):  # several are terms of an `and`, so there is one
        asked_for = replace(condition, arguments=equalities)
    return ir.Join(
        left=below,
        right=asked,
        type=ir.JoinType.LEFT_SEMI,
        condition=asked_for,
        schema=below.schema,
        plan_path=aggregate.plan_path,
    )

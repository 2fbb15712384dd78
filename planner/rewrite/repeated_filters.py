"""Drops repeated filter terms: producers write a condition into the read and once more above it.

A term of a filter is dropped if the next filter below, through projections that only pick columns, has the same term.
Only that one filter is compared, so the pass is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..analysis.structure import Structure
from ..ir.boolean import conjuncts, with_conjuncts
from ..ir.visit import is_column, parts, transform, transform_relations

_PROJECTIONS = 4
"""The most projections to look through: emits and pruning leave one or two."""


def drop_repeated_filters(plan: ir.Plan) -> ir.Plan:
    dropping = _Dropping()
    root, *shared = (transform_relations(relation, dropping.change) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


class _Dropping:
    def __init__(self) -> None:
        self._structure = Structure()

    def change(self, relation: ir.Relation) -> ir.Relation:
        if not isinstance(relation, ir.Filter):
            return relation
        below = relation.input
        projections: list[ir.Project] = []
        while isinstance(below, ir.Project) and len(projections) < _PROJECTIONS and _picks(below):
            projections.append(below)
            below = below.input
        if not isinstance(below, ir.Filter):
            return relation
        known = {self._structure.number(term) for term in conjuncts(below.condition)}
        asked = conjuncts(relation.condition)
        left = [term for term in asked if not self._known(term, projections, known)]
        if len(left) == len(asked):
            return relation
        return replace(relation, condition=with_conjuncts(relation.condition, left)) if left else relation.input

    def _known(self, term: ir.Expression, projections: Sequence[ir.Project], known: set[int]) -> bool:
        if any(isinstance(part, ir.Subquery) for part in parts(term)):
            return False  # its relation reads this row too, and would have to be translated with it
        for projection in projections:
            term = _below(term, projection)
        return self._structure.number(term) in known


def _picks(projection: ir.Project) -> bool:
    return all(map(is_column, projection.expressions))


def _below(term: ir.Expression, projection: ir.Project) -> ir.Expression:
    """The term over the projection's input."""

    def change(part: ir.Expression) -> ir.Expression:
        if not isinstance(part, ir.Field) or part.outer:
            return part
        picked = projection.expressions[part.index]
        return replace(part, index=picked.index) if isinstance(picked, ir.Field) else part

    return transform(term, change)

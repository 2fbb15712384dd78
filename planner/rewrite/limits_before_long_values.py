"""Takes a limit before the long values of a projection are made, so that they are made of the limit's rows alone.

A projection makes a row of each row, in order, so that a limit above it and below it leaves the same rows. The limit of
an order moves too, where the projection passes on the columns of the order. A projection that makes no long values
stays below: its rows may be the narrower ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..analysis.row_wise import keeps_rows
from ..ir.visit import is_column, transform_relations
from ..sql.growth_guards import makes_long_values


def limit_before_long_values(plan: ir.Plan) -> ir.Plan:
    root, *shared = (transform_relations(relation, _moved) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def _moved(relation: ir.Relation) -> ir.Relation:
    match relation:
        case ir.Fetch(input=ir.Sort() as sort):
            return _below_projections(relation, sort.input, sort.keys)
        case ir.Fetch():
            return _below_projections(relation, relation.input, ())
        case ir.TopN():
            return _below_projections(relation, relation.input, relation.keys)
        case _:
            return relation


def _below_projections(limit: ir.Fetch | ir.TopN, below: ir.Relation, keys: Sequence[ir.SortKey]) -> ir.Relation:
    passed: list[ir.Project] = []
    moved: ir.Relation = limit
    while isinstance(below, ir.Project) and keeps_rows(below):
        under = _under(keys, below)
        if under is None:
            break
        passed.append(below)
        keys, is_long, below = under, makes_long_values(below), below.input
        if is_long:
            moved = _over(limit, below, keys)
            for projection in reversed(passed):
                moved = replace(projection, input=moved)
    return moved


def _under(keys: Sequence[ir.SortKey], projection: ir.Project) -> list[ir.SortKey] | None:
    """The keys over the input of the projection; None where it makes one of them."""
    under = []
    for key in keys:
        column = projection.expressions[key.expression.index] if is_column(key.expression) else None
        if column is None or not is_column(column):
            return None
        under.append(replace(key, expression=column))
    return under


def _over(limit: ir.Fetch | ir.TopN, below: ir.Relation, keys: Sequence[ir.SortKey]) -> ir.Relation:
    if isinstance(limit, ir.TopN):
        return replace(limit, input=below, keys=tuple(keys), schema=below.schema)
    if isinstance(limit.input, ir.Sort):
        below = replace(limit.input, input=below, keys=tuple(keys), schema=below.schema)
    return replace(limit, input=below, schema=below.schema)

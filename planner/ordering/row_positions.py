"""A relation with its rows' positions behind its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import ir
from ..ir import types as t
from ..ir.building import columns, project
from ..ir.visit import Positions


@dataclass(frozen=True, slots=True)
class Placed:
    """A relation with positions. The first `width` columns are the relation's own, the others its rows' positions."""

    relation: ir.Relation
    width: int

    @property
    def own(self) -> Positions:
        """The positions of the relation's own columns, which are unchanged."""
        return {at: at for at in range(self.width)}

    @property
    def positions(self) -> tuple[ir.Field, ...]:
        return columns(self.relation.schema)[self.width :]


def rearranged(relation: ir.Relation, order: Sequence[int]) -> ir.Relation:
    """The relation's columns at these positions."""
    if list(order) == list(range(len(relation.schema))):
        return relation
    fields = columns(relation.schema)
    return project(relation, [fields[at] for at in order])


def bare(placed: Placed) -> Placed:
    return Placed(rearranged(placed.relation, range(placed.width)), placed.width)


def by_positions(placed: Placed) -> tuple[ir.SortKey, ...]:
    return tuple(
        ir.SortKey(expression=position, direction=ir.Direction.ASC_NULLS_LAST) for position in placed.positions
    )


def sorted_by_positions(placed: Placed) -> Placed:
    """The relation sorted by its positions. A relation without positions has one row."""
    keys = by_positions(placed)
    if not keys:
        return placed
    relation = placed.relation
    return Placed(
        ir.Sort(input=relation, keys=keys, schema=relation.schema, plan_path=relation.plan_path), placed.width
    )


def marked(placed: Placed) -> Placed:
    """The relation with a first position that is never null, so that it tells a row from a join's nulls."""
    fields = columns(placed.relation.schema)
    here = ir.Literal(value=True, type=t.Boolean(nullable=False))
    expressions: list[ir.Expression] = [*fields[: placed.width], here, *fields[placed.width :]]
    return Placed(project(placed.relation, expressions), placed.width)

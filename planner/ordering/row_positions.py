"""A relation with its rows' positions behind its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import ir
from ..ir import types as t
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
        return fields(self.relation)[self.width :]


def fields(relation: ir.Relation) -> tuple[ir.Field, ...]:
    return tuple(ir.Field(index=at, type=type_) for at, type_ in enumerate(relation.schema))


def with_columns(relation: ir.Relation, expressions: Sequence[ir.Expression], plan_path: str) -> ir.Project:
    schema = tuple(expression.type for expression in expressions)
    return ir.Project(input=relation, expressions=tuple(expressions), schema=schema, plan_path=plan_path)


def rearranged(relation: ir.Relation, order: Sequence[int]) -> ir.Relation:
    """The relation's columns at these positions."""
    if list(order) == list(range(len(relation.schema))):
        return relation
    columns = fields(relation)
    return with_columns(relation, [columns[at] for at in order], relation.plan_path)


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
    columns = fields(placed.relation)
    here = ir.Literal(value=True, type=t.Boolean(nullable=False))
    expressions: list[ir.Expression] = [*columns[: placed.width], here, *columns[placed.width :]]
    return Placed(with_columns(placed.relation, expressions, placed.relation.plan_path), placed.width)

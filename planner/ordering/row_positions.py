"""A relation with its rows' places behind its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import ir
from ..ir import types as t
from ..ir.visit import Places


@dataclass(frozen=True, slots=True)
class Placed:
    """A relation with places. The first `width` columns are the relation's own, the others its rows' places."""

    relation: ir.Relation
    width: int

    @property
    def own(self) -> Places:
        """The positions of the relation's own columns, which are unchanged."""
        return {at: at for at in range(self.width)}

    @property
    def places(self) -> tuple[ir.Field, ...]:
        return fields(self.relation)[self.width :]


def fields(relation: ir.Relation) -> tuple[ir.Field, ...]:
    return tuple(ir.Field(index=at, type=type_) for at, type_ in enumerate(relation.schema))


def with_columns(relation: ir.Relation, expressions: Sequence[ir.Expression], plan_path: str) -> ir.Project:
    schema = tuple(each.type for each in expressions)
    return ir.Project(input=relation, expressions=tuple(expressions), schema=schema, plan_path=plan_path)


def rearranged(relation: ir.Relation, order: Sequence[int]) -> ir.Relation:
    """The relation's columns at these positions."""
    if list(order) == list(range(len(relation.schema))):
        return relation
    columns = fields(relation)
    return with_columns(relation, [columns[at] for at in order], relation.plan_path)


def bare(found: Placed) -> Placed:
    return Placed(rearranged(found.relation, range(found.width)), found.width)


def by_places(found: Placed) -> tuple[ir.SortKey, ...]:
    return tuple(ir.SortKey(expression=place, direction=ir.Direction.ASC_NULLS_LAST) for place in found.places)


def sorted_by_places(found: Placed) -> Placed:
    """The relation sorted by its places. A relation without places has one row."""
    keys = by_places(found)
    if not keys:
        return found
    relation = found.relation
    return Placed(ir.Sort(input=relation, keys=keys, schema=relation.schema, plan_path=relation.plan_path), found.width)


def marked(found: Placed) -> Placed:
    """The relation with a first place that is never null, so that it tells a row from a join's nulls."""
    columns = fields(found.relation)
    here = ir.Literal(value=True, type=t.Boolean(nullable=False))
    expressions: list[ir.Expression] = [*columns[: found.width], here, *columns[found.width :]]
    return Placed(with_columns(found.relation, expressions, found.relation.plan_path), found.width)

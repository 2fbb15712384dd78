"""Rows that get columns from joins with relations pulled out of subqueries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ... import ir
from ...functions.added_calls import conjunction
from ...ir import types as t
from ...ir.building import columns, project
from ...ir.visit import is_column, parts, transform
from .bound_calls import placed
from .pulling import Pulled


@dataclass(slots=True)
class Rows:
    """Rows that get columns behind those they have. For subqueries, the first column is column `first` of the row."""

    relation: ir.Relation
    plan_path: str
    first: int = 0

    def add(self, value: ir.Expression) -> ir.Field:
        """The value as a column; a new column is added unless the value is a column already."""
        if is_column(value):
            return value
        wide = (*columns(self.relation.schema), value)
        self.relation = project(self.relation, wide, self.plan_path)
        return ir.Field(index=len(wide) - 1, type=value.type)

    def join(self, pulled: Pulled, type_: ir.JoinType, terms: Sequence[ir.Expression]) -> None:
        """Joins the rows with a pulled relation. `terms` are over the columns of both."""
        left, right = self.relation.schema, pulled.relation.schema
        condition = conjunction(terms)
        match type_:
            case ir.JoinType.LEFT_SEMI | ir.JoinType.LEFT_ANTI:
                schema = left
            case ir.JoinType.LEFT_MARK:
                schema = (*left, t.Boolean(nullable=condition is not None and condition.type.nullable))
            case ir.JoinType.INNER:
                schema = (*left, *right)
            case _:
                schema = (*left, *map(t.nullable, right))
        self.relation = ir.Join(
            left=self.relation,
            right=pulled.relation,
            type=type_,
            condition=condition,
            schema=schema,
            plan_path=self.plan_path,
        )

    def met(self, expression: ir.Expression, *, padded: bool = False) -> ir.Expression:
        """An expression over an outer and an inner row, as an expression over the columns of both: the outer columns
        are these rows'.
        """
        width = len(self.relation.schema)

        def change(part: ir.Expression) -> ir.Expression:
            if not isinstance(part, ir.Field):
                return part
            if part.outer:
                return replace(part, outer=part.outer - 1, index=part.index - (self.first if part.outer == 1 else 0))
            return replace(part, index=width + part.index, type=t.nullable(part.type) if padded else part.type)

        return transform(expression, change)

    def terms(self, pulled: Pulled) -> list[ir.Expression]:
        return [self.met(term) for term in pulled.terms]

    def trimmed(self, schema: ir.Schema) -> ir.Relation:
        """The rows with the columns they had at first."""
        if len(self.relation.schema) == len(schema):
            return self.relation
        return project(self.relation, columns(schema), self.plan_path)


def narrow(pulled: Pulled) -> Pulled:
    """The pulled relation with only the columns that terms and columns use."""
    used = sorted(
        {
            part.index
            for term in (*pulled.terms, *pulled.columns)
            for part in parts(term)
            if isinstance(part, ir.Field) and not part.outer
        }
    )
    below = pulled.relation
    if len(used) == len(below.schema):
        return pulled
    fields = columns(below.schema)
    kept = project(below, [fields[at] for at in used], below.plan_path)
    new_fields: dict[int, ir.Expression] = dict(zip(used, columns(kept.schema), strict=True))
    moved = [new_fields.get(at, field) for at, field in enumerate(fields)]
    return replace(
        pulled,
        relation=kept,
        terms=tuple(placed(term, moved) for term in pulled.terms),
        columns=tuple(placed(column, moved) for column in pulled.columns),
    )

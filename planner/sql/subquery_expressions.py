"""Subqueries as SQL expressions."""

from __future__ import annotations

from collections.abc import Sequence

from ...proto.errors import PlanError, Problem
from .. import ir
from ..functions.templates import named_values


def subquery(expression: ir.Subquery, needles: Sequence[str], select: str) -> str:
    """The SQL of a subquery, whose relation is `select`. It has marks, so that lambdas are put around none."""
    return named_values.subquery(_written(expression, [*map(named_values.written, needles)], select))


def _written(expression: ir.Subquery, needles: Sequence[str], select: str) -> str:
    match expression.kind:
        case ir.SubqueryKind.SCALAR:
            return f"({select})"
        case ir.SubqueryKind.EXISTS:
            return f"(EXISTS ({select}))"
        case ir.SubqueryKind.UNIQUE:
            return _unique(select, len(expression.relation.schema))
        case ir.SubqueryKind.IN:
            row = needles[0] if len(needles) == 1 else f"({', '.join(needles)})"
            return f"({row} IN ({select}))"
        case ir.SubqueryKind.ANY | ir.SubqueryKind.ALL:
            if expression.comparison is None:
                raise PlanError(
                    Problem(
                        place=expression.plan_path, reason="NO_COMPARISON", message="the subquery has no comparison"
                    )
                )
            return f"({needles[0]} {expression.comparison.value} {expression.kind.value.upper()} ({select}))"


def _unique(select: str, width: int) -> str:
    """SQL's UNIQUE: no two rows are equal, and a row with a null in it equals no row."""
    columns = [f"u.c{at}" for at in range(width)]
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    table = f"({select}) AS u({', '.join(f'c{at}' for at in range(width))})"
    by = ", ".join(columns)
    return f"(NOT EXISTS (SELECT 1 FROM {table} WHERE {present} GROUP BY {by} HAVING count(*) > 1))"

"""Expressions of the outer row and of the own row, and what stands in their places."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from ... import ir
from ...functions.added_calls import call
from ...ir import types as t
from ...ir.tree import operands, with_operands
from ...ir.visit import parts, transform
from ...ir.walk import unroll


def true() -> ir.Literal:
    return ir.Literal(value=True, type=t.Boolean(nullable=False))


def null(type_: t.Type) -> ir.Literal:
    return ir.Literal(value=None, type=t.nullable(type_))


def certainly(term: ir.Expression) -> ir.Expression:
    """The term with false in place of null."""
    return call("is_true", term) if term.type.nullable else term


def is_inner(expression: ir.Expression) -> bool:
    """Tests whether the expression reads its own row."""
    return any(isinstance(part, ir.Field) and not part.outer for part in parts(expression))


def placed(expression: ir.Expression, columns: Sequence[ir.Expression]) -> ir.Expression:
    """The expression with each column of its own row replaced by the column's definition."""

    def change(part: ir.Expression) -> ir.Expression:
        if not isinstance(part, ir.Field) or part.outer:
            return part
        return stepped(columns[part.index], part)

    return transform(expression, change)


def stepped(value: ir.Expression, field: ir.Field) -> ir.Expression:
    """The field's value if its column has this value."""
    if not field.steps:
        return value
    if isinstance(value, ir.Field):
        return replace(value, steps=(*value.steps, *field.steps), type=field.type)
    return ir.NestedField(operand=value, steps=field.steps, type=field.type)


def replaced(expression: ir.Expression, values: Mapping[ir.Expression, ir.Expression]) -> ir.Expression:
    """The expression with other parts, by the old part."""

    def step(part: ir.Expression) -> Generator[ir.Expression, ir.Expression, ir.Expression]:
        if part in values:
            return values[part]
        new = []
        for operand in operands(part):
            new.append((yield operand))  # noqa: PERF401 (a comprehension cannot yield)
        return with_operands(part, new)

    return unroll(step, expression)

"""The connectives `and` and `or`: finds their calls and their terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from .. import ir


def is_connective(expression: ir.Expression, name: str | None = None) -> TypeGuard[ir.Call]:
    """Tests whether an expression calls the official `and` or `or` (the one called `name`, if given)."""
    if not isinstance(expression, ir.Call) or not expression.function.urn.endswith("functions_boolean"):
        return False
    return expression.function.name in (("and", "or") if name is None else (name,))


def is_and(expression: ir.Expression) -> TypeGuard[ir.Call]:
    return is_connective(expression, "and")


def terms(connective: ir.Call) -> list[ir.Expression]:
    """The terms of a connective, left to right, seen through nested uses of the same connective."""
    expressions: list[ir.Expression] = []
    stack: list[ir.Expression] = [connective]
    while stack:
        top = stack.pop()
        if is_connective(top, connective.function.name):
            stack.extend(argument for argument in reversed(top.arguments) if not isinstance(argument, str))
        else:
            expressions.append(top)
    return expressions


def conjuncts(condition: ir.Expression) -> list[ir.Expression]:
    """The terms that must all be true for the condition to be true: the terms of an `and`, or the condition alone."""
    return terms(condition) if is_and(condition) else [condition]


def within_is_true(term: ir.Expression) -> ir.Expression:
    """The term without `is_true` around it: a condition of rows takes null for false anyway."""
    match term:
        case ir.Call(function=ir.Function(name="is_true"), arguments=(ir.Call() as inside,)):
            return inside
        case _:
            return term


def with_conjuncts(condition: ir.Expression, expressions: Sequence[ir.Expression]) -> ir.Expression:
    """The condition with only these of its terms. `expressions` has at least one term."""
    if len(expressions) > 1 and isinstance(condition, ir.Call):
        return replace(condition, arguments=tuple(expressions))
    return expressions[0]

"""`and` and `or`: which calls they are, and what they connect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from .. import ir


def is_connective(expression: ir.Expression, name: str | None = None) -> TypeGuard[ir.Call]:
    """Whether it is a call of the official `and` or `or` (of this one, if named)."""
    if not isinstance(expression, ir.Call) or not expression.function.urn.endswith("functions_boolean"):
        return False
    return expression.function.name in (("and", "or") if name is None else (name,))


def is_and(expression: ir.Expression) -> TypeGuard[ir.Call]:
    return is_connective(expression, "and")


def terms(connective: ir.Call) -> list[ir.Expression]:
    """What a connective connects, left to right, seen through nested uses of the same one."""
    found: list[ir.Expression] = []
    stack: list[ir.Expression] = [connective]
    while stack:
        top = stack.pop()
        if is_connective(top, connective.function.name):
            stack.extend(argument for argument in reversed(top.arguments) if not isinstance(argument, str))
        else:
            found.append(top)
    return found


def conjuncts(condition: ir.Expression) -> list[ir.Expression]:
    """What must all be true for the condition to be: the terms of an `and`, or the condition alone."""
    return terms(condition) if is_and(condition) else [condition]


def with_conjuncts(condition: ir.Expression, found: Sequence[ir.Expression]) -> ir.Expression:
    """The condition with only these of its terms, of which there is at least one."""
    if len(found) > 1 and isinstance(condition, ir.Call):
        return replace(condition, arguments=tuple(found))
    return found[0]

"""The texts of a plan that a cast reads as values of other types, such as `CAST('x' AS BIGINT)`.

Such a value depends on no row, so that it can be tried before the plan runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .. import ir
from ..ir import tree
from ..ir import types as t
from ..ir.types import Type
from ..ir.visit import relations

_TEXTS: Final = (t.String, t.VarChar, t.FixedChar)
_BYTES: Final = (t.Binary, t.FixedBinary)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadText:
    """A text of type `source` that is cast to `target`, in an expression of the relation at `plan_path`."""

    value: str
    source: Type
    target: Type
    plan_path: str


def read_texts(plan: ir.Plan) -> Iterator[ReadText]:
    """The texts whose casts fail if they hold no value. Casts that only some rows reach are left out: the branches of
    conditionals, and the later arguments of `coalesce`.
    """
    for root in (plan.root, *plan.shared):
        for relation in relations(root):
            for expression in tree.expressions(relation):
                if type(expression) not in tree.LEAVES:
                    yield from _of(expression, relation.plan_path)


def _of(expression: ir.Expression, plan_path: str) -> Iterator[ReadText]:
    stack = [expression]
    while stack:
        match stack.pop():
            case ir.Cast(operand=operand, type=target, on_failure=on_failure) if (text := _text(operand)) is not None:
                reads = isinstance(text.type, _TEXTS) and not isinstance(target, (*_TEXTS, *_BYTES))
                if reads and on_failure is ir.CastFailure.ERROR:
                    yield ReadText(value=str(text.value), source=text.type, target=target, plan_path=plan_path)
            case ir.IfThen(clauses=((first, _), *_)):
                stack.append(first)
            case ir.Switch(match=value):
                stack.append(value)
            case ir.Call(function=ir.Function(name="coalesce"), arguments=(first, *_)) if not isinstance(first, str):
                stack.append(first)
            case part:
                stack.extend(operand for operand in tree.operands(part) if type(operand) not in tree.LEAVES)


def _text(operand: ir.Expression) -> ir.Literal | None:
    """The text that a cast reads, perhaps once a producer's own reading has passed it on."""
    match operand:
        case ir.Call(function=ir.Function(name="readable"), arguments=(ir.Literal() as text, *_)):
            return _text(text)
        case ir.Literal(value=str()):
            return operand
        case _:
            return None

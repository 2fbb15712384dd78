"""Decodes `Expression.if_then`."""

from __future__ import annotations

from typing import Final

from ... import ir
from .. import poison
from ..declarations.extensions import Declared
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..function_calls import bind_scalar
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope
from .case_branches import one_type

_EQUAL: Final = Declared("equal", "extension:io.substrait:functions_comparison")


def convert_if_then(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    """The conditional. DataFusion writes `CASE x WHEN` with x as a first condition that has no result."""
    base: ir.Expression | None = None
    written = enumerate(message.ifs)
    if message.ifs and not message.ifs[0].then:
        _, first = next(written)
        base = yield from decoder.expression(getattr(first, "if"), plan_path.at("ifs", 0) / "if", scope)
    clauses: list[tuple[ir.Expression, ir.Expression]] = []
    for index, clause in written:
        at = plan_path.at("ifs", index)
        number = getattr(clause, "if")
        if base is None:
            condition = yield from decoder.condition(number, at / "if", scope)
        else:
            value = yield from decoder.expression(number, at / "if", scope)
            condition = bind_scalar(decoder, _EQUAL, [base, value], at / "if")
        clauses.append((condition, (yield from decoder.expression(clause.then, at / "then", scope, untyped=True))))
    otherwise = None
    if getattr(message, "else"):
        at = plan_path / "else"
        otherwise = yield from decoder.expression(getattr(message, "else"), at, scope, untyped=True)
    if not clauses:
        decoder.problems.add(plan_path, "MISSING", "there must be at least one clause")
        return poison.EXPRESSION
    results, type_ = one_type(decoder, [*(then for _, then in clauses)], otherwise, plan_path)
    if type_ is None or any(is_unknown(condition.type) for condition, _ in clauses):
        return poison.EXPRESSION
    return ir.IfThen(
        clauses=tuple((condition, then) for (condition, _), then in zip(clauses, results, strict=False)),
        otherwise=results[-1] if otherwise is not None else None,
        type=type_,
    )

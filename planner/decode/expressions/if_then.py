"""Decodes `Expression.if_then`."""

from __future__ import annotations

from ... import ir
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope
from .case_branches import one_type


def convert_if_then(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    clauses: list[tuple[ir.Expression, ir.Expression]] = []
    for index, clause in enumerate(message.ifs):
        at = plan_path.at("ifs", index)
        condition = yield from decoder.condition(getattr(clause, "if"), at / "if", scope)
        clauses.append((condition, (yield from decoder.expression(clause.then, at / "then", scope))))
    otherwise = None
    if getattr(message, "else"):
        otherwise = yield from decoder.expression(getattr(message, "else"), plan_path / "else", scope)
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

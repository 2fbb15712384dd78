"""Decodes `Expression.switch_expression`."""

from __future__ import annotations

from typing import cast

from ... import ir
from ...functions import in_one_order
from .. import poison
from ..comparing import comparable
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope
from .case_branches import one_type


def convert_switch(decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope) -> Steps[ir.Expression]:
    match = yield from decoder.expression(message.match, plan_path / "match", scope)
    cases: list[ir.Literal] = []
    thens: list[ir.Expression] = []
    for index, clause in enumerate(message.ifs):
        at = plan_path.at("ifs", index)
        case = decoder.literals.convert(getattr(clause, "if"), at / "if")
        if not comparable(match.type, case.type):
            problem = f"{match.type} is never equal to {case.type}"
            decoder.problems.add(at / "if", "MIXED_TYPES", problem)
        cases.append(case)
        thens.append((yield from decoder.expression(clause.then, at / "then", scope, untyped=True)))
    otherwise = None
    if getattr(message, "else"):
        at = plan_path / "else"
        otherwise = yield from decoder.expression(getattr(message, "else"), at, scope, untyped=True)
    if not cases:
        decoder.problems.add(plan_path, "MISSING", "there must be at least one clause")
        return poison.EXPRESSION
    results, type_ = one_type(decoder, thens, otherwise, plan_path)
    if type_ is None or is_unknown(match.type) or any(is_unknown(case.type) for case in cases):
        return poison.EXPRESSION
    match, *compared = in_one_order([match, *cases])
    cases = cast("list[ir.Literal]", compared)  # a literal taken apart is one, too
    return ir.Switch(
        match=match,
        clauses=tuple(zip(cases, results, strict=False)),
        otherwise=results[-1] if otherwise is not None else None,
        type=type_,
    )

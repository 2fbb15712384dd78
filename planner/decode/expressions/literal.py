"""Decodes `Expression.literal`."""

from __future__ import annotations

from ... import ir
from ..decoder import Decoder, Steps
from ..plan_path import PlanPath
from ..scope import Scope


def convert_literal(decoder: Decoder, number: int, plan_path: PlanPath, _: Scope) -> Steps[ir.Expression]:
    return decoder.literals.convert(number, plan_path)
    yield  # a converter is a generator even if it asks for nothing

"""Decodes `Expression.literal`."""

from __future__ import annotations

from ... import ir
from ..decoder import Decoder
from ..plan_path import PlanPath
from ..scope import Scope


def convert_literal(decoder: Decoder, number: int, plan_path: PlanPath, _: Scope) -> ir.Expression:
    return decoder.literals.convert(number, plan_path)

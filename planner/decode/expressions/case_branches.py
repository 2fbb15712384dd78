"""The one type of an expression whose value is that of one of its branches."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from ... import ir
from ...ir import types as t
from ...ir.types import Type
from ..comparing import either_nullable, same_type
from ..decoder import Decoder
from ..plan_path import PlanPath
from ..poison import is_unknown


def one_type(
    decoder: Decoder, thens: list[ir.Expression], otherwise: ir.Expression | None, plan_path: PlanPath
) -> tuple[list[ir.Expression], Type | None]:
    """All branches, `otherwise` last if there is one, and their type. Integers of several widths, as ibis writes them,
    have the widest one; floats likewise. A `poison.NULL` has the type of the others.

    The type is nullable if a branch's is, or if there is no `otherwise`. It is None if the branches have no common
    type; that has been reported, unless a branch is poison.
    """
    written = thens if otherwise is None else [*thens, otherwise]
    branches = _widened([*decoder.typed(written, plan_path)])
    types = [branch.type for branch in branches]
    if any(map(is_unknown, types)):
        return branches, None
    odd = next((type_ for type_ in types if not same_type(types[0], type_)), None)
    if odd is not None:
        message = f"all branches must have the same type, not {types[0]} and {odd}"
        decoder.problems.add(plan_path, "MIXED_TYPES", message)
        return branches, None
    type_ = reduce(either_nullable, types)
    return branches, t.nullable(type_) if otherwise is None else type_


def _widened(branches: list[ir.Expression]) -> list[ir.Expression]:
    match branches[0].type:
        case t.Integer(signed=signed):
            same_kind = all(isinstance(one.type, t.Integer) and one.type.signed is signed for one in branches)
        case t.Float():
            same_kind = all(isinstance(one.type, t.Float) for one in branches)
        case _:
            same_kind = False
    if not same_kind:
        return branches
    widest = max((one.type for one in branches), key=_bits)
    return [_as(one, replace(widest, nullable=one.type.nullable)) for one in branches]


def _bits(type_: Type) -> int:
    return type_.bits if isinstance(type_, t.Integer | t.Float) else 0


def _as(branch: ir.Expression, type_: Type) -> ir.Expression:
    return branch if branch.type == type_ else ir.Cast(operand=branch, type=type_)

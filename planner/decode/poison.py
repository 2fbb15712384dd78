"""What stands for the broken parts of a plan, so that decoding can go on and report nothing twice.

A part whose problem has been reported becomes poison. Whoever gets poison makes poison of it, silently. Poison
never leaves the decoder: where there is any, there is a problem, and a plan with a problem is not handed out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .. import ir
from ..ir.types import Boolean, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unknown(Boolean):
    """Nothing asks what an unknown type is before it has asked `is_unknown`; it has to be some type."""

    def __str__(self) -> str:
        return "unknown"


UNKNOWN: Final[Type] = _Unknown()
"""The type of what has no type."""

RELATION: Final[ir.Relation] = ir.Values(rows=(), schema=(), place="")
"""A relation of which not even the schema is known."""

EXPRESSION: Final[ir.Expression] = ir.Literal(value=None, type=UNKNOWN)


def is_unknown(type_: Type) -> bool:
    return isinstance(type_, _Unknown)

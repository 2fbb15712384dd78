"""Stand-ins for the broken parts of a plan, with which decoding goes on and reports nothing twice.

A part whose problem has been reported becomes poison. A converter that gets poison makes poison of it, silently. Poison
never leaves the decoder: a plan with poison has a problem, and the decoder hands out no plan with a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .. import ir
from ..ir.types import Boolean, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unknown(Boolean):
    """The unknown type. It has to be some type; the decoder asks `is_unknown` before it looks at the type."""

    def __str__(self) -> str:
        return "unknown"


UNKNOWN: Final[Type] = _Unknown()
"""The type of a value without a known type."""

RELATION: Final[ir.Relation] = ir.Values(rows=(), schema=(), plan_path="")
"""A relation whose schema is not known."""

EXPRESSION: Final[ir.Expression] = ir.Literal(value=None, type=UNKNOWN)

NULL: Final = ir.Literal(value=None, type=UNKNOWN)
"""A null that the plan gives no type, and that has not been reported. A converter that asks for such nulls gives each a
type, or reports it. It tells them by identity.
"""


def is_unknown(type_: Type) -> bool:
    return isinstance(type_, _Unknown)

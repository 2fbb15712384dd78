"""The time column of windows."""

from __future__ import annotations

from dataclasses import dataclass

from .... import ir
from ....ir.types import Type


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A time column. `value` is never null: rows without a time are filtered out below it."""

    value: ir.Expression
    nullable: bool

    @property
    def type(self) -> Type:
        return self.value.type

    def literal(self, units: int) -> ir.Literal:
        return ir.Literal(value=units, type=self.type)

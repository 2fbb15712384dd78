"""What the names in an expression mean at one place of a statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .. import ir


def _no_clock(variable: ir.ContextVariable) -> str:
    raise ValueError(f"{variable.variable.value} is not readable here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """SQL texts for what an expression may name; `expressions.render` puts them together.

    `rows[0]` are the columns of the current row (`r3.c0`), `rows[n]` those of the n-th enclosing subquery's operator:
    `Field(index=i, outer=n)` is `rows[n][i]`. `subqueries` holds the SELECT of every `ir.Subquery` in the expression,
    without parentheses, by the node's `id`. `context` gives the SQL of a clock value.
    """

    rows: tuple[tuple[str, ...], ...] = ((),)
    subqueries: Mapping[int, str] = field(default_factory=dict)
    context: Callable[[ir.ContextVariable], str] = _no_clock

"""The names in an expression at one place of a statement: `expression_writer.Scope`, from texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .. import ir
from .growth_guards import Guards, Passing


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScope:
    """A scope made of texts.

    `rows[0]` are the columns of the current row (`r3.c0`), `rows[n]` those of the n-th enclosing subquery's operator.
    `subqueries` holds the SELECT of every subquery of the expressions, by its relation's `id`, made before; `clock`
    gives the SQL of a clock value. `passing` counts what the statement makes without guards, `plan_path` names the
    relation. `hands_out` says that the statement may hand its rows out as it makes them.
    """

    rows: tuple[tuple[str, ...], ...]
    clock: Callable[[ir.Clock], str]
    subqueries: Mapping[ir.Relation, str] = field(default_factory=dict)
    passing: Passing | None = None
    plan_path: str = ""
    hands_out: bool = False

    @property
    def guards(self) -> Guards:
        row = next((row for row in self.rows if row), ())  # an enclosing one, where all columns of its own are pruned
        return Guards(self.plan_path, row, self.passing, self.hands_out)

    def column(self, index: int, outer: int) -> str:
        return self.rows[outer][index]

    def subquery(self, relation: ir.Relation) -> str:
        return self.subqueries[relation]

    def context(self, variable: ir.Clock) -> str:
        return self.clock(variable)

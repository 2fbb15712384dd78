"""The interface through which the file of a relation writes its expressions as SQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .. import ir
from ..ir.arrow_types import sql_type
from ..ir.types import Struct
from . import expression_writer as expressions
from .sql_scope import TextScope
from .table import Table, numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes expressions that see the rows of `scope`. `aliases` numbers the tables of the whole statement."""

    scope: TextScope
    aliases: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def expression(self, expression: ir.Expression) -> str:
        return expressions.guarded(expression, self.scope)

    def column(self, expression: ir.Expression) -> str:
        """The expression as a column of a SELECT, of exactly its declared type."""
        return _typed(self.expression(expression), expression)

    def unguarded_column(self, expression: ir.Expression, stopped: str | None = None) -> str:
        """`column` without a guard of its own. Where `stopped` is true, nothing is computed."""
        rendered = expressions.render(expression, self.scope)
        if stopped is None or isinstance(expression, ir.Field):
            return _typed(rendered, expression)
        return f"CAST(CASE WHEN {stopped} THEN NULL ELSE {rendered} END AS {sql_type(expression.type)})"

    def guard(self, row: Sequence[ir.Expression]) -> str | None:
        """A condition that stops the statement where these columns of a row are too large; None if none is needed."""
        return expressions.guard(row, self.scope)

    def measure(self, measure: ir.Measure) -> str:
        return f"CAST({expressions.render_measure(measure, self.scope)} AS {sql_type(measure.type)})"

    def call(self, call: ir.WindowCall) -> str:
        return f"CAST({expressions.render_window_call(call, self.scope)} AS {sql_type(call.type)})"

    def condition(self, condition: ir.Expression | None) -> str:
        return "true" if condition is None else self.expression(condition)

    def table(self, select: str, width: int) -> Table:
        """The SELECT as a table with an alias of its own."""
        return numbered(self.aliases, select, width)

    def over(self, *tables: Table) -> Writer:
        """A writer whose current row is the row of these tables, side by side."""
        row = tuple(column for table in tables for column in table.columns)
        return replace(self, scope=replace(self.scope, rows=(row, *self.scope.rows[1:])))

    def order(self, keys: Sequence[ir.SortKey]) -> str:
        """An ORDER BY clause, or nothing. Each key places its nulls; NaN is above all numbers, and -0.0 is 0.0.

        A constant orders nothing, and SQL would take an integer for a column's position, so constants are left out.
        """
        terms = [self._term(key) for key in keys if not isinstance(key.expression, ir.Literal)]
        return f" ORDER BY {', '.join(terms)}" if terms else ""

    def _term(self, key: ir.SortKey) -> str:
        clustered = key.direction is ir.Direction.CLUSTERED
        direction = ir.Direction.ASC_NULLS_LAST if clustered else key.direction
        return f"{self.expression(key.expression)} {direction.value}"


def _typed(rendered: str, expression: ir.Expression) -> str:
    match expression:
        case ir.Field(steps=()) | ir.Literal() | ir.Cast():
            return rendered
        case _ if isinstance(expression.type, Struct) and not expression.type.fields:
            return rendered  # the type has no name in DuckDB's SQL
        case _:
            return f"CAST({rendered} AS {sql_type(expression.type)})"

"""The names that an expression can refer to: columns, outer columns and lambda parameters."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from .. import ir
from ..ir.types import Type


class Windows:
    """The window calls found in the expressions of one projection, for the `Window` relation below it."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.calls: list[ir.WindowCall] = []
        self.orders: set[Hashable] = set()
        """The content of their partitions and orders."""

    def lift(self, call: ir.WindowCall) -> ir.Field:
        """The column for the call's result."""
        self.calls.append(call)
        return ir.Field(index=self._width + len(self.calls) - 1, type=call.type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """The row that an operator's expressions see, and around it the rows of the operators of enclosing subqueries.

    `schema` is None if the input is broken: every field of it is poison. `anchors` gives the columns of each anchor,
    for outer references by relation: the operator's own anchor, and its inputs'. `parameters` are those of the
    enclosing lambdas, innermost first. `packed` has, for each of these lambdas, whether its parameters are the fields
    of one struct. `unreadable` counts the outermost of them that the operand of a subquery cannot read.
    """

    schema: ir.Schema | None
    outer: Scope | None = None
    anchors: Mapping[int, range] = field(default_factory=dict)
    parameters: tuple[ir.Schema, ...] = ()
    packed: tuple[bool, ...] = ()
    unreadable: int = 0
    windows: Windows | None = None

    def inside_lambda(self, parameters: ir.Schema, *, packed: bool = False) -> Scope:
        return replace(self, parameters=(parameters, *self.parameters), packed=(packed, *self.packed), windows=None)

    def in_subquery_operand(self) -> Scope:
        """The scope of a value that a subquery's rows are compared with: DuckDB has no subqueries in lambdas."""
        return replace(self, unreadable=len(self.parameters))

    def has_lambda_outside(self, steps: int) -> bool:
        """Tests whether the lambda `steps` steps out is around a subquery that this expression is in."""
        left, scope = steps, self
        while left >= len(scope.parameters) and scope.outer is not None:
            left, scope = left - len(scope.parameters), scope.outer
        return left < len(scope.parameters)

    def without_windows(self) -> Scope:
        return self if self.windows is None else replace(self, windows=None)

    def enclosing(self, steps: int) -> Scope | None:
        """The scope `steps` subqueries further out."""
        scope: Scope | None = self
        for _ in range(steps):
            if scope is None:
                return None
            scope = scope.outer
        return scope

    def anchored(self, anchor: int) -> tuple[Scope, int, range] | None:
        """The enclosing scope that knows `anchor`, the number of subqueries out to that scope, and the anchor's
        columns.
        """
        steps, scope = 1, self.outer
        while scope is not None:
            if anchor in scope.anchors:
                return scope, steps, scope.anchors[anchor]
            steps, scope = steps + 1, scope.outer
        return None


def column(schema: ir.Schema, index: int) -> Type | None:
    """The type of a column, None beyond the last column or before the first."""
    return schema[index] if 0 <= index < len(schema) else None


def no_column(schema: ir.Schema, index: int) -> str:
    """The problem with the position of a column for which `column` gives None."""
    return f"there is no column {index}; there are {len(schema)} columns, counted from 0"

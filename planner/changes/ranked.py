"""Filters that keep the first rows of each partition, by their number or rank: a limit below the windows.

If a window's frames end at the row itself, its answers for the first rows of a partition do not depend on later rows.
So the operator keeps, in order, only as many rows as the filter lets through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, floor
from typing import Final

from ...operators.changes.top import Counting
from .. import ir
from ..analysis.structure import Structure
from ..ir import types as t
from ..ir.boolean import conjuncts
from ..ir.visit import is_column
from .change_nodes import ChangeNode
from .orders import Limit, first_rows
from .reaches import reaching

_COUNTINGS: Final = {"row_number": Counting.ROWS, "rank": Counting.RANK, "dense_rank": Counting.DENSE_RANK}
_MOST: Final[Mapping[str, Callable[[int | Decimal], int]]] = {
    "lte": floor,
    "lt": lambda value: ceil(value) - 1,
    "equal": floor,
}
"""The greatest whole number that passes a comparison with a number, by comparison."""
_SIDES: Final = 2
_TURNED: Final = {"gte": "lte", "gt": "lt", "equal": "equal"}


@dataclass(frozen=True, slots=True, eq=False)
class RankLimit:
    """A limit on the windows' rows: only rows that the call numbers at most `count` are wanted."""

    windows: ir.Window
    call: ir.WindowCall
    count: int

    def rows(self, node: ChangeNode) -> ChangeNode:
        """The wanted rows of the windows' input."""
        limit = Limit(0, self.count, _COUNTINGS[self.call.function.name])
        schema, plan_path = self.windows.input.schema, self.windows.plan_path
        return first_rows(node, schema, self.call.partitions, self.call.sorts, limit, plan_path)


def limit_above(relation: ir.Relation, base: ir.Relation) -> RankLimit | None:
    """The limit that the filters from `relation` down to the windows `base` set, if they keep the first rows."""
    if not isinstance(base, ir.Window):
        return None
    for column, count in _bounds(relation, base):
        at = column - len(base.input.schema)
        if at >= 0 and base.calls[at].function.name in _COUNTINGS:
            limit = RankLimit(base, base.calls[at], max(count, 0))
            if _is_of_the_first(limit):
                return limit
    return None


def _is_of_the_first(limit: RankLimit) -> bool:
    """Tests whether every call gives the first rows the same answers with and without the later rows."""
    structure = Structure()

    def window(call: ir.WindowCall) -> object:
        sorts = tuple((structure.number(sort.expression), sort.direction) for sort in call.sorts)
        return tuple(map(structure.number, call.partitions)), sorts

    with_ties = limit.call.function.name != "row_number"
    wanted = window(limit.call)
    for call in limit.windows.calls:
        reach = reaching(call)
        if reach.whole or reach.after or window(call) != wanted:
            return False
        if reach.peers and not with_ties and call.function.name not in _COUNTINGS:
            return False
    return True


def _bounds(relation: ir.Relation, base: ir.Window) -> Iterator[tuple[int, int]]:
    """Columns of the windows, each with the greatest value that the chain's filters allow."""
    steps: list[ir.Relation] = []
    while relation is not base:
        assert isinstance(relation, ir.Filter | ir.Project | ir.Expand)
        steps.append(relation)
        relation = relation.input
    positions = {at: at for at in range(len(base.schema))}
    for step in reversed(steps):
        match step:
            case ir.Filter():
                for term in conjuncts(step.condition):
                    bound = _bound(term)
                    if bound is not None and bound[0] in positions:
                        yield positions[bound[0]], bound[1]
            case ir.Project():
                fields = enumerate(step.expressions)
                positions = {
                    at: positions[expression.index]
                    for at, expression in fields
                    if is_column(expression) and expression.index in positions
                }
            case _:
                return


def _bound(term: ir.Expression) -> tuple[int, int] | None:
    """The column of a comparison, and its greatest allowed value."""
    if not isinstance(term, ir.Call) or len(term.arguments) != _SIDES:
        return None
    name = term.function.name
    column, most = map(_uncast, term.arguments)
    if isinstance(column, ir.Literal):
        column, most, name = most, column, _TURNED.get(name, "")
    if isinstance(column, str) or not is_column(column) or name not in _MOST:
        return None
    match most:
        case ir.Literal(value=(int() | Decimal()) as value):
            return column.index, _MOST[name](value)
        case _:
            return None


def _uncast(expression: ir.Expression | str) -> ir.Expression | str:
    """The expression without casts of whole numbers to other exact numbers, which compare as their operand does. A
    fraction keeps its casts: a cast to a whole number rounds it.
    """
    operand = expression
    while isinstance(operand, ir.Cast) and isinstance(operand.type, t.Integer | t.Decimal):
        operand = operand.operand
    is_fraction = isinstance(operand, ir.Literal) and isinstance(operand.value, Decimal) and bool(operand.value % 1)
    return expression if is_fraction else operand

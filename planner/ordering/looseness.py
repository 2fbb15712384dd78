"""Finds the relations whose rows come in an order that may differ between runs, once hash joins do not fit in memory.

Such a relation is *loose*. Joins are loose, and so are the relations that DuckDB turns into joins: subqueries,
expressions that read an enclosing row, set operations that compare rows. A relation that keeps rows as they come is as
loose as its input. A relation that puts rows in order, or computes from all rows in order, is not loose: `ordered`
gives it its rows in order. (An exception are groups inside of a subquery that reads an enclosing row: DuckDB computes
the groups of all enclosing rows at once.)
"""

from __future__ import annotations

from collections.abc import Container, Generator
from typing import assert_never

from .. import ir
from ..analysis.exact import is_exact, is_one_value
from ..analysis.outer_references import OuterReferences
from ..ir import tree
from ..ir.visit import parts
from ..ir.walk import unroll


class Looseness:
    """The looseness of every relation below `root`, down to the relations in `ends`, whose rows come in order."""

    def __init__(self, root: ir.Relation, ends: Container[int]) -> None:
        self._root = root
        self._ends = ends
        self._loose: dict[int, bool] = {}
        self._reach = OuterReferences()
        unroll(self._step, root)

    def of(self, relation: ir.Relation) -> bool:
        return self._loose[id(relation)]

    def is_closed(self, relation: ir.Relation) -> bool:
        """Tests whether the relation reads nothing of its enclosing queries."""
        return self._reach.is_closed(relation)

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, bool, bool]:
        if relation is not self._root and id(relation) in self._ends:
            loose = False
        else:
            below = []
            for child in tree.inputs(relation):
                below.append((yield child))  # noqa: PERF401 (a comprehension cannot yield)
            for expression in tree.expressions(relation):
                for part in parts(expression):
                    if isinstance(part, ir.Subquery):
                        yield part.relation
            loose = _is_loose(relation, any(below), self.is_closed(relation))
        self._loose[id(relation)] = loose
        return loose


def _is_loose(relation: ir.Relation, below: bool, closed: bool) -> bool:
    match relation:
        case ir.Read() | ir.LocalFiles() | ir.Values() | ir.Shared() | ir.Reference():
            return False
        case ir.Filter() | ir.Project() | ir.Expand():
            return below or joins_rows(relation)
        case ir.Join() | ir.LateralJoin() | ir.Cross():
            return True
        case ir.Aggregate() | ir.PartialAggregate() | ir.FinalAggregate():
            return not closed or ((below or joins_rows(relation)) and is_exact(relation))
        case ir.Set():
            if relation.operation is ir.SetOperation.UNION_ALL:
                return below
            if relation.operation is not ir.SetOperation.UNION_DISTINCT:
                return True
            return not closed or (below and all(map(is_one_value, relation.schema)))
        case ir.Sort() | ir.TopN() | ir.Fetch() | ir.Window() | ir.Exchange() | ir.Recursion():
            return False
        case ir.IndexTable() | ir.Unnest() | ir.IndexLookup() | ir.MergeJoin() | ir.StreamingAggregate():
            return False
        case ir.User() | ir.Iterate() | ir.Rounds() | ir.LoopInput():
            return False  # never inside of a fragment
        case _:
            assert_never(relation)


def joins_rows(relation: ir.Relation) -> bool:
    """Tests whether the relation's own expressions make DuckDB join: with a subquery, or with the rows of an enclosing
    query.
    """
    expressions = (part for expression in tree.expressions(relation) for part in parts(expression))
    return any(isinstance(part, ir.Subquery) or (isinstance(part, ir.Field) and part.outer) for part in expressions)

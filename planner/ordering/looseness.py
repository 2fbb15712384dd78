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
from ..analysis.exact import Grouping, is_exact, is_one_value
from ..analysis.outer_references import OuterReferences
from ..ir import tree
from ..ir.visit import parts
from ..ir.walk import unroll


class Looseness:
    """The looseness of every relation below `root`, down to the relations in `ends`, whose rows come in order."""

    def __init__(self, root: ir.Relation, ends: Container[ir.Relation]) -> None:
        self._root = root
        self._ends = ends
        self._loose: dict[ir.Relation, bool] = {}
        self._references = OuterReferences()
        unroll(self._step, root)

    def of(self, relation: ir.Relation) -> bool:
        return self._loose[relation]

    def is_closed(self, relation: ir.Relation) -> bool:
        """Tests whether the relation reads nothing of its enclosing queries."""
        return self._references.of(relation).closed

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, bool, bool]:
        if relation is not self._root and relation in self._ends:
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
        self._loose[relation] = loose
        return loose


def _is_loose(relation: ir.Relation, below: bool, closed: bool) -> bool:
    match relation.traits.loose:
        case "never":
            return False
        case "always":
            return True
        case "as input":
            return below or joins_rows(relation)
        case "grouped":
            return not closed or ((below or joins_rows(relation)) and _is_one_answer(relation))
        case loose:
            assert_never(loose)


def _is_one_answer(relation: ir.Relation) -> bool:
    """Tests whether groups are the same in any order of the input's rows."""
    if isinstance(relation, Grouping):
        return is_exact(relation)
    return all(map(is_one_value, relation.schema))


def joins_rows(relation: ir.Relation) -> bool:
    """Tests whether the relation's own expressions make DuckDB join: with a subquery, or with the rows of an enclosing
    query.
    """
    expressions = (part for expression in tree.expressions(relation) for part in parts(expression))
    return any(isinstance(part, ir.Subquery) or (isinstance(part, ir.Field) and part.outer) for part in expressions)

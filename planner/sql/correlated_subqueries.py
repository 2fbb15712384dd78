"""A bound on the correlated subqueries of a statement.

DuckDB's planner takes the fifth power of their number, and the second power of the columns of the row for which they
are computed: 40 EXISTS in one filter over one column 4 s, 8 over 300 columns 5 s.
"""

from __future__ import annotations

from typing import Final

from ...proto.errors import PlanError, Problem
from .. import ir
from ..analysis.outer_references import OuterReferences
from ..ir import tree
from ..ir.visit import subqueries_of

WORK: Final = 20_000_000
"""The most work that a statement's correlated subqueries may be: about 6 s of DuckDB's planner, in our measurements."""

_COMPARED: Final = 1.5
"""DuckDB takes about as long for two subqueries of ANY or ALL as for three others."""


class CorrelatedSubqueries:
    """Counts the correlated subqueries of a statement's relations, each relation after all relations below it."""

    def __init__(self) -> None:
        self._references = OuterReferences()
        self._counts: dict[ir.Relation, float] = {}

    def count(self, relation: ir.Relation) -> None:
        """Counts those of a relation, and those on the way of its rows. Raises `PlanError` if they are too many for
        DuckDB's planner. A relation that another statement computes is never counted.
        """
        own = [one for one in subqueries_of(relation) if self._references.of(one.relation).rows]
        below = sum(self._counts.get(child, 0) for child in tree.inputs(relation))
        if not own:
            if below:
                self._counts[relation] = below
            return
        inside = max(self._counts.get(subquery.relation, 0) for subquery in own)
        compared = sum(subquery.kind in (ir.SubqueryKind.ANY, ir.SubqueryKind.ALL) for subquery in own)
        number = self._counts[relation] = below + inside + len(own) + (_COMPARED - 1) * compared
        width = sum(len(child.schema) for child in tree.inputs(relation))
        if work(number, width) > WORK:
            raise PlanError(Problem(place=relation.plan_path, reason="PLAN_TOO_LARGE", message=_message(number, width)))


def work(number: float, width: int) -> float:
    """A measure of the time to plan correlated subqueries for a row of so many columns."""
    return number**2 * (width**2 + 56 * width * number + 4 * number**2)


def most(width: int) -> int:
    """The most correlated subqueries for a row of so many columns."""
    number = 0
    while work(number + 1, width) <= WORK:
        number += 1
    return number


def _message(number: float, width: int) -> str:
    return (
        f"{number:,.0f} correlated subqueries are computed for a row of {width:,} columns (one of ANY or ALL counts "
        f"{_COMPARED}); at most {most(width):,} are allowed for so many columns: write them as joins, or drop unused "
        "columns below them"
    )

"""The references of a relation to the queries and loops around it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from ...proto.errors import Problem
from .. import ir
from ..ir import tree
from ..ir.visit import parts
from ..ir.walk import unroll


@dataclass(frozen=True, slots=True)
class References:
    """References outwards: `rows` is the number of enclosing rows that a relation reads, 0 if it reads no enclosing
    row; `loops` are the numbers of the loops around the relation whose references it reads.
    """

    rows: int
    loops: frozenset[int]

    @property
    def closed(self) -> bool:
        """Tests whether there are none, so that the relation can stand elsewhere in the plan."""
        return not self.rows and not self.loops


_NO_LOOPS: frozenset[int] = frozenset()


class OuterReferences:
    """References by relation. Each relation is visited once."""

    def __init__(self) -> None:
        self._known: dict[ir.Relation, References] = {}

    def of(self, relation: ir.Relation) -> References:
        known = self._known.get(relation)
        return unroll(self._step, relation) if known is None else known

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, References, References]:
        known = self._known.get(relation)
        if known is not None:
            return known
        rows, loops = 0, _NO_LOOPS
        for side, child in enumerate(tree.inputs(relation)):
            below = yield child
            lateral = isinstance(relation, ir.LateralJoin) and side == 1
            rows = max(rows, below.rows - lateral)
            loops |= below.loops
        for expression in tree.expressions(relation):
            for part in parts(expression):
                if isinstance(part, ir.Field):
                    rows = max(rows, part.outer)
                elif isinstance(part, ir.Subquery):
                    inner = yield part.relation
                    rows = max(rows, inner.rows - 1)
                    loops |= inner.loops
        if isinstance(relation, ir.Reference):
            loops = frozenset({relation.loop})
        elif isinstance(relation, ir.Iterate | ir.Recursion):
            loops -= {relation.loop}
        known = self._known[relation] = References(rows, loops)
        return known


def correlated(plan_path: str) -> Problem:
    """The problem of a loop, or of another relation without a statement, that reads an enclosing query's row."""
    message = (
        "a loop, or another relation without a DuckDB statement, cannot read the row of an enclosing query: keep "
        "the compared value as a column, and compare above the relation"
    )
    return Problem(place=plan_path, reason="UNSUPPORTED_CORRELATION", message=message)

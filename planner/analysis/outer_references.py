"""The references of a relation to the queries and loops around it."""

from __future__ import annotations

from collections.abc import Generator

from ...proto.errors import Problem
from .. import ir
from ..ir import tree
from ..ir.visit import parts, relations, subqueries
from ..ir.walk import unroll


def loops_read(relation: ir.Relation) -> frozenset[int]:
    """The numbers of the loops around the relation whose references it reads."""
    read: set[int] = set()
    inside: set[int] = set()
    for part in relations(relation):
        match part:
            case ir.Reference():
                read.add(part.loop)
            case ir.Iterate() | ir.Recursion():
                inside.add(part.loop)
            case _:
                pass
    return frozenset(read - inside)


class OuterReferences:
    """The number of enclosing queries that a relation reads from, and the loops it reads. Each relation is visited
    once.
    """

    def __init__(self) -> None:
        self._reach: dict[int, tuple[ir.Relation, int]] = {}
        self._loops: dict[int, tuple[ir.Relation, frozenset[int]]] = {}

    def is_closed(self, relation: ir.Relation) -> bool:
        """Tests whether the relation reads no enclosing query and no loop, so that it can stand elsewhere in
        the plan.
        """
        return self.of(relation) == 0 and not self.loops(relation)

    def of(self, relation: ir.Relation) -> int:
        """The number of rows outwards that the relation reads; 0 if it reads no enclosing row."""
        return unroll(self._step, relation)

    def loops(self, relation: ir.Relation) -> frozenset[int]:
        """The numbers of the loops around the relation whose references it reads."""
        return unroll(self._loop_step, relation)

    def _loop_step(self, relation: ir.Relation) -> Generator[ir.Relation, frozenset[int], frozenset[int]]:
        known = self._loops.get(id(relation))
        if known is not None:
            return known[1]
        loops = frozenset({relation.loop}) if isinstance(relation, ir.Reference) else frozenset()
        for below in (*tree.inputs(relation), *_inner(relation)):
            loops |= yield below
        if isinstance(relation, ir.Iterate | ir.Recursion):
            loops -= {relation.loop}
        self._loops[id(relation)] = (relation, loops)
        return loops

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, int, int]:
        known = self._reach.get(id(relation))
        if known is not None:
            return known[1]
        reach = 0
        for below in tree.inputs(relation):
            beyond = yield below
            lateral = isinstance(relation, ir.LateralJoin) and below is relation.right
            reach = max(reach, beyond - 1 if lateral else beyond)
        for expression in tree.expressions(relation):
            for part in parts(expression):
                if isinstance(part, ir.Field):
                    reach = max(reach, part.outer)
                elif isinstance(part, ir.Subquery):
                    reach = max(reach, (yield part.relation) - 1)
        self._reach[id(relation)] = (relation, reach)
        return reach


def correlated(plan_path: str) -> Problem:
    """The problem of a loop, or of another relation without a statement, that reads an enclosing query's row."""
    message = (
        "a loop, or another relation without a DuckDB statement, cannot read the row of an enclosing query: keep "
        "the compared value as a column, and compare above the relation"
    )
    return Problem(place=plan_path, reason="UNSUPPORTED_CORRELATION", message=message)


def _inner(relation: ir.Relation) -> list[ir.Relation]:
    return [subquery.relation for expression in tree.expressions(relation) for subquery in subqueries(expression)]

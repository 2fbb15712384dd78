"""What a relation reads of the queries it is inside of."""

from __future__ import annotations

from collections.abc import Generator

from . import ir, tree
from .visit import parts
from .walk import unroll


class Reach:
    """How many of the queries around it a relation reads from; each relation is looked at once."""

    def __init__(self) -> None:
        self._reach: dict[int, tuple[ir.Relation, int]] = {}

    def is_closed(self, relation: ir.Relation) -> bool:
        """Whether it reads nothing of them, so that it can stand elsewhere in the plan."""
        return unroll(self._step, relation) == 0

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

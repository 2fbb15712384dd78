"""Takes a row-wise plan apart into one plan per leaf; the plans run one after the other.

`filter(a union all b)` gives the rows of `filter(a)`, then those of `filter(b)`. So each source's pieces can be
processed as they come.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import ir
from ..analysis.facts import FactTable
from ..ir import tree

_GROWTH = 4
"""The most growth of a plan. The relations above a union are repeated for each of its inputs: a plan that would grow
more waits instead.
"""


@dataclass(frozen=True, slots=True)
class _Above:
    """The relations above a relation, nearest first."""

    relation: ir.Relation
    next: _Above | None
    height: int


def branches(root: ir.Relation, facts: FactTable) -> tuple[ir.Relation, ...] | None:
    """A relation for each leaf, in plan order. They give the root's rows one after the other. None if there are no such
    relations.
    """
    if not facts.of(root).row_wise:
        return None
    roots: list[ir.Relation] = []
    budget = _GROWTH * facts.of(root).size
    stack: list[tuple[ir.Relation, _Above | None]] = [(root, None)]
    while stack:
        relation, above = stack.pop()
        if facts.of(relation).leaves == 1:
            budget -= 1 + (above.height if above else 0)
            if budget < 0:
                return None
            roots.append(_under(relation, above))
        elif isinstance(relation, ir.Set):
            stack.extend((child, above) for child in reversed(relation.inputs))
        else:
            height = 1 + (above.height if above else 0)
            stack.append((tree.inputs(relation)[0], _Above(relation, above, height)))
    return tuple(roots)


def _under(relation: ir.Relation, above: _Above | None) -> ir.Relation:
    while above is not None:
        relation = tree.with_inputs(above.relation, (relation, *tree.inputs(above.relation)[1:]))
        above = above.next
    return relation

"""Computes once what a plan says twice: producers write a view or a common table expression out at each use.

An aggregate or a window that stands at least twice, and reads nothing of an enclosing query, becomes a `Shared`
relation. The pass takes the largest of them, and those inside them that stand elsewhere too. It leaves repeated scans,
filters and joins alone: relations above each use may still push filters and columns into them. A plan has at most
`ir.MOST_SHARED` shared relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable
from dataclasses import replace
from itertools import islice
from typing import TypeGuard

from .. import ir
from ..analysis.outer_references import OuterReferences
from ..analysis.structure import Structure
from ..ir.visit import beneath, rebuilt, relations
from ..ir.walk import unroll


def share_common_subtrees(plan: ir.Plan) -> ir.Plan:
    roots = (*plan.shared, plan.root)
    alike = Counter(_likeness(relation) for root in roots for relation in relations(root) if _is_costly(relation))
    if max(alike.values(), default=0) <= 1:
        return plan
    structure = Structure()
    numbers = Counter[int]()
    for root in roots:
        _count(root, structure, numbers)
    room = max(ir.MOST_SHARED - len(plan.shared), 0)
    repeated = set(islice((number for number, times in numbers.items() if times > 1), room))
    if not repeated:
        return plan
    sharing = _Sharing(structure, repeated)
    for relation in plan.shared:
        sharing.keep(relation)
    root = unroll(sharing.step, plan.root)
    moved = tuple(replace(side, ordinal=sharing.moved(side.ordinal)) for side in plan.side_tables)
    return replace(plan, root=root, shared=tuple(sharing.shared), side_tables=moved)


def _is_costly(relation: ir.Relation) -> TypeGuard[ir.Aggregate | ir.Window]:
    return isinstance(relation, ir.Aggregate | ir.Window)


def _likeness(relation: ir.Aggregate | ir.Window) -> Hashable:
    """A mark that equal relations share, and few others: cheap to see in a plan that repeats nothing."""
    calls = relation.measures if isinstance(relation, ir.Aggregate) else relation.calls
    return type(relation), relation.schema, tuple(call.function for call in calls)


def _count(root: ir.Relation, structure: Structure, numbers: Counter[int]) -> None:
    """Counts each candidate's occurrences in the plan. Relations inside a repetition are not counted again."""
    references = OuterReferences()
    stack = [root]
    while stack:
        visited = stack.pop()
        if _is_costly(visited) and references.of(visited).closed:
            number = structure.number(visited)
            numbers[number] += 1
            if numbers[number] > 1:
                continue
        stack.extend(beneath(visited))


class _Sharing:
    """Replaces repeated relations, innermost first, so that each shared relation refers only to earlier ones."""

    def __init__(self, structure: Structure, repeated: set[int]) -> None:
        self.shared: list[ir.Relation] = []
        self._structure = structure
        self._repeated = repeated
        self._places: dict[int, int] = {}
        self._moved: list[int] = []

    def keep(self, relation: ir.Relation) -> None:
        """Keeps a relation that the plan itself shares: relations that it repeats come before it, and its own uses move
        on.
        """
        over = unroll(self.step, relation)
        self._moved.append(len(self.shared))
        self.shared.append(over)

    def moved(self, ordinal: int) -> int:
        """The number that a relation has now which the plan itself shares."""
        return self._moved[ordinal]

    def step(self, relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        if isinstance(relation, ir.Shared):
            return replace(relation, ordinal=self.moved(relation.ordinal))
        number = self._structure.number(relation) if _is_costly(relation) else None
        if number is not None and number in self._places:
            return self._use(relation, number)
        over = yield from rebuilt(relation)
        if number is None or number not in self._repeated:
            return over
        self._places[number] = len(self.shared)
        self.shared.append(over)
        return self._use(relation, number)

    def _use(self, relation: ir.Relation, number: int) -> ir.Shared:
        return ir.Shared(ordinal=self._places[number], schema=relation.schema, plan_path=relation.plan_path)

"""Facts about each relation that planning needs, found once, in one walk from the leaves up."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import assert_never

from .. import ir
from ..ir import tree
from ..ir.visit import parts
from ..ir.walk import unroll


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about one relation.

    | Field | Meaning |
    |---|---|
    | `reach` | The number of enclosing rows outwards that the relation reads; 0 if it reads no enclosing row. |
    | `fed` | Some rows may change between epochs: a source is fed, the clock is read, or user code makes them. |
    | `reads` | The number of reads of sources; uses of shared subtrees are followed. |
    | `size` | The number of relations, this one included; a use of a shared subtree is one. |
    | `row_wise` | Every row comes from one row of a leaf, in order. |
    | `leaves` | The number of leaves; a use of a shared subtree is one. |
    | `loops` | The loops around the relation whose references it reads. |
    """

    reach: int
    fed: bool
    reads: int
    size: int
    row_wise: bool
    leaves: int
    loops: frozenset[int] = frozenset()

    @property
    def closed(self) -> bool:
        """Tests whether the relation can be computed alone."""
        return not self.reach and not self.loops


class FactTable:
    """Facts by relation, for relations under any number of roots."""

    def __init__(self, shared: Sequence[ir.Relation], static: Callable[[ir.Read], bool]) -> None:
        self._shared = shared
        self._static = static
        self._facts: dict[int, Facts] = {}
        self._alive: list[ir.Relation] = []

    def of(self, relation: ir.Relation) -> Facts:
        """The facts of a relation. The table keeps the relation alive, so that its id stays unique."""
        if id(relation) not in self._facts:
            self._alive.append(relation)
            unroll(self._step, relation)
        return self._facts[id(relation)]

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, Facts, Facts]:
        known = self._facts.get(id(relation))
        if known is None:
            known = self._facts[id(relation)] = yield from self._found(relation)
        return known

    def _found(self, relation: ir.Relation) -> Generator[ir.Relation, Facts, Facts]:
        if isinstance(relation, ir.Shared):
            definition = yield self._shared[relation.ordinal]
            return Facts(reach=0, fed=definition.fed, reads=definition.reads, size=1, row_wise=False, leaves=1)
        below: list[Facts] = []
        reach = 0
        for side, child in enumerate(tree.inputs(relation)):
            known = yield child
            if isinstance(relation, ir.IndexLookup) and side == 1:
                continue  # not read, only looked up in
            below.append(known)
            lateral = isinstance(relation, ir.LateralJoin) and side == 1
            reach = max(reach, known.reach - lateral)
        inner: list[Facts] = []
        clock = False
        for expression in tree.expressions(relation):
            for part in parts(expression):
                match part:
                    case ir.Field(outer=outer):
                        reach = max(reach, outer)
                    case ir.Subquery():
                        known = yield part.relation
                        inner.append(known)
                        reach = max(reach, known.reach - 1)
                    case ir.ContextVariable():
                        clock = True
                    case _:
                        pass
        loops = frozenset[int]().union(*(facts.loops for facts in (*below, *inner)))
        match relation:
            case ir.Reference():
                loops = frozenset({relation.loop})
            case ir.Iterate() | ir.Recursion():
                loops -= {relation.loop}
            case _:
                pass
        leaf = isinstance(relation, ir.Read | ir.LocalFiles)
        return Facts(
            reach=reach,
            fed=clock or any(facts.fed for facts in (*below, *inner)) or self._is_fed(relation),
            reads=sum(facts.reads for facts in (*below, *inner)) + leaf,
            size=sum(facts.size for facts in (*below, *inner)) + 1,
            row_wise=not inner and _keeps_rows(relation) and all(facts.row_wise for facts in below),
            leaves=sum(facts.leaves for facts in (*below, *inner)) or 1,
            loops=loops,
        )

    def _is_fed(self, relation: ir.Relation) -> bool:
        """Tests the relation itself. Users' executors are made anew for each epoch, whatever they read."""
        return isinstance(relation, ir.User) or (isinstance(relation, ir.Read) and not self._static(relation))


def _keeps_rows(relation: ir.Relation) -> bool:
    match relation:
        case ir.Read() | ir.LocalFiles():
            return not relation.order  # the order is of all pieces together
        case ir.Values() | ir.Filter() | ir.Project() | ir.Expand():
            return True
        case ir.Unnest() | ir.IndexLookup():
            return True
        case ir.Set():
            return relation.operation is ir.SetOperation.UNION_ALL
        case ir.Fetch() | ir.Sort() | ir.TopN() | ir.Window() | ir.Join() | ir.LateralJoin() | ir.Cross():
            return False
        case ir.Aggregate() | ir.PartialAggregate() | ir.FinalAggregate() | ir.StreamingAggregate() | ir.MergeJoin():
            return False
        case ir.Iterate() | ir.Reference() | ir.LoopInput() | ir.Recursion() | ir.Rounds():
            return False
        case ir.Shared() | ir.Exchange() | ir.IndexTable() | ir.User():
            return False
        case _:
            assert_never(relation)

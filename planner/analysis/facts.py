"""Facts about each relation that planning needs, found once, in one walk from the leaves up."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from .. import ir
from ..ir import tree
from ..ir.visit import parts
from ..ir.walk import unroll
from .outer_references import OuterReferences, References
from .row_wise import keeps_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about one relation.

    | Field | Meaning |
    |---|---|
    | `references` | The references of the relation to the queries and loops around it. |
    | `fed` | Some rows may change between epochs: a source is fed, the clock is read, or user code makes them. |
    | `reads` | The number of reads of sources; uses of shared subtrees are followed. |
    | `size` | The number of relations, this one included; a use of a shared subtree is one. |
    | `row_wise` | Every row comes from one row of a leaf, in order (`row_wise.keeps_rows`), piece by piece. |
    | `leaves` | The number of leaves; a use of a shared subtree is one. |
    """

    references: References
    fed: bool
    reads: int
    size: int
    row_wise: bool
    leaves: int

    @property
    def closed(self) -> bool:
        """Tests whether the relation can be computed alone."""
        return self.references.closed


class FactTable:
    """Facts by relation, for relations under any number of roots."""

    def __init__(self, shared: Sequence[ir.Relation], static: Callable[[ir.Read], bool]) -> None:
        self._shared = shared
        self._static = static
        self._references = OuterReferences()
        self._facts: dict[ir.Relation, Facts] = {}

    def of(self, relation: ir.Relation) -> Facts:
        known = self._facts.get(relation)
        return unroll(self._step, relation) if known is None else known

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, Facts, Facts]:
        known = self._facts.get(relation)
        if known is None:
            known = self._facts[relation] = yield from self._facts_of(relation)
        return known

    def _facts_of(self, relation: ir.Relation) -> Generator[ir.Relation, Facts, Facts]:
        references = self._references.of(relation)
        if isinstance(relation, ir.Shared):
            definition = yield self._shared[relation.ordinal]
            return replace(definition, references=references, size=1, row_wise=False, leaves=1)
        below: list[Facts] = []
        for child in tree.read_by(relation):
            below.append((yield child))  # noqa: PERF401 (a comprehension cannot yield)
        inner: list[Facts] = []
        clock = False
        for expression in tree.expressions(relation):
            for part in parts(expression):
                if isinstance(part, ir.Subquery):
                    inner.append((yield part.relation))
                clock |= isinstance(part, ir.ContextVariable)
        beneath = (*below, *inner)
        leaf = isinstance(relation, ir.Read | ir.LocalFiles)
        return Facts(
            references=references,
            fed=clock or any(facts.fed for facts in beneath) or self._is_fed(relation),
            reads=sum(facts.reads for facts in beneath) + leaf,
            size=sum(facts.size for facts in beneath) + 1,
            row_wise=keeps_rows(relation) and not _is_ordered(relation) and all(facts.row_wise for facts in below),
            leaves=sum(facts.leaves for facts in beneath) or 1,
        )

    def _is_fed(self, relation: ir.Relation) -> bool:
        """Tests the relation itself. Users' executors are made anew for each epoch, whatever they read."""
        return isinstance(relation, ir.User) or (isinstance(relation, ir.Read) and not self._static(relation))


def _is_ordered(relation: ir.Relation) -> bool:
    """Tests for a read with a declared order: that of all pieces together, so its pieces do not stand alone."""
    return isinstance(relation, ir.Read | ir.LocalFiles) and bool(relation.order)

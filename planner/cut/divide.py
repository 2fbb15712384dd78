"""Divides a plan: into sections, each a pipeline's or a kept result's, and these into fragments. Once per plan.

- A row-wise plan becomes a section per leaf that starts with the first piece; any other plan waits for the seal, as
  one section.
- A subtree that only static sources feed is computed once per task and kept: the largest such subtree, unless it is a
  bare read (which DuckDB reads again, with pushdown) or reads nothing at all. If all of the plan is static nothing is
  kept: the plan is one section, and every epoch computes its answer afresh.
- A relation with an operator of its own (`ir.Operated`) ends the fragments around it: it is an edge, and so is each of
  its inputs. The relation under an index is no input: it is a section of its own, computed once per task.
- A loop that one recursive statement computes is an edge too: its rows are put in canonical order outside of DuckDB.
- A fragment is cut where it is `DEPTH` relations deep. A relation that reads an enclosing row cannot be computed alone
  and is not cut; its own depth is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...proto.errors import PlanError, Problem
from .. import ir
from ..analysis.facts import FactTable
from ..analysis.row_wise import keeps_rows
from ..ir import tree
from ..ir.by_node import ByNode
from ..ir.visit import subqueries_of
from ..ir.walk import unroll
from ..sql.growth_guards import makes_long_values
from .lookup_joins import Candidate, candidates
from .operated import Indexed, IndexKey, indexed
from .row_wise_branches import branches

DEPTH: Final = 100
"""The most relations in a statement, one inside the other: DuckDB fails beyond about 900 and slows down long before."""

_JOIN: Final = 2
"""The relations as which a join counts: DuckDB takes more than the second power of a statement's joins to order them,
1.5 s for 100 inner joins of all columns, and 0.3 s for 50.
"""

CORRELATED_DEPTH: Final = 300
"""The most relations, one inside the other, if no cut is possible."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """The relation of a pipeline or a kept result: `root`, in fragments that end at `edges` (innermost first)."""

    root: ir.Relation
    edges: tuple[ir.Relation, ...]
    row_wise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """The cuts of a plan. `kept` names each kept section, and `uses` gives the kept section's name of each of its uses;
    `indexes` are the indexes that may be kept, each with its section in `tables`; `lookups` are the joins that an
    epoch's sizes may turn into look-ups.
    """

    sections: tuple[Section, ...]
    facts: FactTable
    kept: dict[str, Section] = field(default_factory=dict)
    uses: ByNode[str] = field(default_factory=ByNode)
    indexes: dict[IndexKey, Indexed] = field(default_factory=dict)
    tables: dict[str, Section] = field(default_factory=dict)
    lookups: ByNode[Candidate] = field(default_factory=ByNode)
    shared: tuple[ir.Relation, ...] = ()


def divide(plan: ir.Plan, static: Callable[[ir.Read], bool]) -> Division:
    """Divides a plan. Raises `PlanError` if a correlated part is too deep."""
    facts = FactTable(plan.shared, static)
    everything = (plan.root, *plan.shared)
    indexes = indexed(everything, facts)
    lookups = candidates(everything, facts)
    for candidate in lookups.values():
        key = candidate.table, candidate.keys
        indexes.setdefault(key, Indexed(name=f"index{len(indexes)}", relation=candidate.table, keys=candidate.keys))
    tables = {index.name: section(plan.shared, index.relation, facts) for index in indexes.values()}
    if not facts.of(plan.root).fed:
        return Division(
            sections=(section(plan.shared, plan.root, facts),),
            indexes=indexes,
            tables=tables,
            shared=plan.shared,
            facts=facts,
        )
    branch_roots = branches(plan.root, facts)
    roots = (plan.root,) if branch_roots is None else branch_roots
    kept = _Keeping(plan, facts)
    for root in roots:
        kept.look_below(root)
    roots = tuple(tree.all_of(root) if root in kept.uses else root for root in roots)
    return Division(
        sections=tuple(
            section(plan.shared, root, facts, kept.uses, row_wise=branch_roots is not None) for root in roots
        ),
        kept={name: section(plan.shared, root, facts) for name, root in kept.roots.items()},
        uses=kept.uses,
        indexes=indexes,
        tables=tables,
        lookups=lookups,
        shared=plan.shared,
        facts=facts,
    )


class _Keeping:
    """Finds the largest subtrees that only static sources feed."""

    def __init__(self, plan: ir.Plan, facts: FactTable) -> None:
        self._plan = plan
        self._facts = facts
        self._names: dict[ir.Relation, str] = {}
        self._seen: set[int] = set()
        self.roots: dict[str, ir.Relation] = {}
        self.uses = ByNode[str]()

    def look_below(self, root: ir.Relation) -> None:
        stack = [root]
        while stack:
            relation = stack.pop()
            definition = self._plan.shared[relation.ordinal] if isinstance(relation, ir.Shared) else relation
            if self._is_kept(relation):
                self.uses[relation] = self._name(definition)
            elif isinstance(relation, ir.Shared):
                if relation.ordinal not in self._seen:
                    self._seen.add(relation.ordinal)
                    stack.append(definition)
            elif not self._is_static(relation):  # a static relation that is not kept is bare: there is nothing in it
                stack.extend(reversed(list(below(relation))))

    def _is_kept(self, relation: ir.Relation) -> bool:
        return self._is_static(relation) and not _bare(relation)

    def _is_static(self, relation: ir.Relation) -> bool:
        facts = self._facts.of(relation)
        return not facts.fed and facts.closed and facts.reads > 0

    def _name(self, definition: ir.Relation) -> str:
        name = self._names.setdefault(definition, f"kept{len(self._names)}")
        self.roots[name] = definition
        return name


def _bare(relation: ir.Relation) -> bool:
    """Tests whether a relation is a read, or some columns of a read."""
    while isinstance(relation, ir.Project) and all(
        isinstance(expression, ir.Field) and not expression.steps for expression in relation.expressions
    ):
        relation = relation.input
    return isinstance(relation, ir.Read | ir.LocalFiles)


def below(relation: ir.Relation) -> Iterator[ir.Relation]:
    """The relations right below a relation whose rows are read, those of its subqueries last."""
    yield from tree.read_by(relation)
    for subquery in subqueries_of(relation):
        yield subquery.relation


def section(
    shared: Sequence[ir.Relation],
    root: ir.Relation,
    facts: FactTable,
    uses: Container[ir.Relation] = (),
    *,
    row_wise: bool = False,
) -> Section:
    """A section. `uses` are relations that something else computes. A fragment always gives a section's rows."""
    top: ir.Relation = tree.all_of(root) if isinstance(root, ir.Operated) else root
    sectioning = _Sectioning(shared, top, facts, uses)
    unroll(sectioning.step, top)
    return Section(root=top, edges=tuple(sectioning.edges.values()), row_wise=row_wise)


class _Sectioning:
    """Finds the edges of a section. A step's result is the depth of the statement from which its relation comes."""

    def __init__(
        self, shared: Sequence[ir.Relation], root: ir.Relation, facts: FactTable, uses: Container[ir.Relation]
    ) -> None:
        self.edges: dict[ir.Relation, ir.Relation] = {}
        self._shared = shared
        self._root = root
        self._facts = facts
        self._uses = uses
        self._seen: set[int] = set()
        self._ends: dict[ir.Relation, ir.Relation] = {}
        """The relation below the projections and filters from a relation down, which make each row of one row."""

    def step(self, relation: ir.Relation) -> Generator[ir.Relation, int, int]:
        if relation in self._uses or isinstance(relation, ir.Exchange):
            return 1
        if isinstance(relation, ir.Shared):
            if relation.ordinal not in self._seen:
                self._seen.add(relation.ordinal)
                yield self._shared[relation.ordinal]
            return 1
        depth = 0
        for child in below(relation):
            depth = max(depth, (yield child))
        depth += _JOIN if isinstance(relation, ir.Join | ir.Cross) else 1
        if self._is_cut_at_limit(relation):
            return 1
        if isinstance(relation, ir.Operated):
            self._ends_at(relation)
            return 1
        if relation is not self._root and isinstance(relation, ir.Recursion):
            self._add(relation)
            return 1
        if depth < DEPTH or relation is self._root:
            return depth
        if self._facts.of(relation).closed:
            self._add(relation)
            return 1
        if depth > CORRELATED_DEPTH:
            raise PlanError(_too_deep(relation.plan_path))
        return depth

    def _is_cut_at_limit(self, relation: ir.Relation) -> bool:
        """Cut off long values from a limit above or below them, so that fewer rows can be computed at once: add the
        edges, and return whether the relation is one.
        """
        match relation:
            case ir.Fetch() | ir.TopN():
                below_limit, end = relation.input, self._ends.get(relation.input)
                if (
                    end is not None
                    and self._is_input(end)
                    and self._facts.of(below_limit).closed
                    and _is_long(below_limit)
                ):
                    self._add(below_limit)
            case ir.Project() | ir.Filter() if keeps_rows(relation):
                end = self._ends[relation] = self._ends.get(relation.input, relation.input)
                limits = isinstance(end, ir.Fetch | ir.TopN)
                if limits and self._facts.of(relation).closed and makes_long_values(relation):
                    self._add(end)
                    if relation is not self._root:
                        self._add(relation)
                        return True
        return False

    def _is_input(self, relation: ir.Relation) -> bool:
        """Tests whether a statement reads the relation's rows one by one."""
        return isinstance(relation, ir.Read | ir.LocalFiles) or relation in self._uses or relation in self.edges

    def _ends_at(self, relation: ir.Operated) -> None:
        if not self._facts.of(relation).closed:
            raise PlanError(_correlated(relation.plan_path))
        for child in tree.read_by(relation):
            self._add(child)
        self._add(relation)

    def _add(self, relation: ir.Relation) -> None:
        if not (relation in self._uses or isinstance(relation, ir.Exchange)):
            self.edges.setdefault(relation, relation)


def _is_long(relation: ir.Relation) -> bool:
    """Tests whether one of the projections and filters from this relation down makes long values."""
    while isinstance(relation, ir.Project | ir.Filter) and keeps_rows(relation):
        if makes_long_values(relation):
            return True
        relation = relation.input
    return False


def _correlated(plan_path: str) -> Problem:
    return Problem(
        place=plan_path,
        reason="UNSUPPORTED_CORRELATION",
        message="a relation without a DuckDB statement cannot read the row of an enclosing query, nor the rows of an "
        "enclosing loop",
    )


def _too_deep(plan_path: str) -> Problem:
    return Problem(
        place=plan_path,
        reason="TOO_DEEP",
        message=f"more than {CORRELATED_DEPTH} nested relations read the row of an enclosing query, or the rows of a "
        "loop, so none of them can be computed alone: nest fewer of these relations",
    )

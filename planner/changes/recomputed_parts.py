"""Relations that are computed again from all rows of their inputs, whenever the inputs have changed."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ...proto.errors import PlanError
from .. import ir
from ..analysis.outer_references import OuterReferences, correlated
from ..analysis.recursions import steady
from ..ir import tree
from ..ir.arrow_types import arrow_schema
from ..ir.visit import subqueries_of
from .change_nodes import ChangeNode, RecomputeNode
from .rendering import render_with_reads


def lower_by_recomputing(
    relation: ir.Relation, shared: Sequence[ir.Relation], why: str
) -> Generator[ir.Relation, ChangeNode, ChangeNode]:
    """One statement for the relation. Inputs that do not read the relation's rows are still changes. An input that
    reads them is taken apart into the sources that it reads, and into loops and other relations that no statement has.
    """
    ends: list[ir.Relation] = []
    inputs = steady(relation) if isinstance(relation, ir.Recursion) else tree.inputs(relation)
    free = inputs[:1] if isinstance(relation, ir.LateralJoin) else inputs
    ends.extend(free)
    for child in (*inputs[len(free) :], *_subqueried(relation)):
        ends.extend(_leaves(child, shared))
    ends = list(dict.fromkeys(ends))
    nodes = []
    for end in ends:
        nodes.append((yield end))  # noqa: PERF401 (a comprehension cannot yield)
    sql, reads = render_with_reads(relation, ends, shared)
    return RecomputeNode(
        inputs=tuple(nodes),
        sql=sql,
        replayed=frozenset(number for number, times in enumerate(reads) if times > 1),
        why=why,
        schema=arrow_schema(relation.schema),
        plan_path=relation.plan_path,
    )


def _subqueried(relation: ir.Relation) -> list[ir.Relation]:
    return [subquery.relation for subquery in subqueries_of(relation)]


def _leaves(relation: ir.Relation, shared: Sequence[ir.Relation]) -> list[ir.Relation]:
    """The leaves of a relation that have rows, those of its subqueries and of shared relations included. A relation
    that no statement has is a leaf. Raises `PlanError` if such a relation reads a row.
    """
    leaves: list[ir.Relation] = []
    references = OuterReferences()
    seen: set[int] = set()
    stack = [relation]
    while stack:
        at = stack.pop()
        if isinstance(at, ir.Read | ir.LocalFiles | ir.Reference | ir.LoopInput):
            leaves.append(at)
        elif isinstance(at, ir.Iterate | ir.Operated | ir.OfTime):
            if references.of(at).rows:
                raise PlanError(correlated(at.plan_path))
            leaves.append(at)
        elif isinstance(at, ir.Shared):
            if at.ordinal not in seen:
                seen.add(at.ordinal)
                stack.append(shared[at.ordinal])
        else:
            stack.extend((*tree.inputs(at), *_subqueried(at)))
    return leaves

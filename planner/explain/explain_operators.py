"""The operators of each pipeline, explained: which operator ends it, which block, and which are halves.

An operator that ends its pipeline hands rows to an exchange, or to the result. An operator that blocks has read all of
its input before its first row. If an exchange lies in the middle of a relation's work, the part below it is the
relation's partial half, in every channel, and the part above it is the final half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import ir
from ..ir import tree
from ..ir.visit import subqueries_of
from .described import described


def marks(*, ends: bool, blocks: bool) -> dict[str, bool]:
    """The marks of an operator beside its work."""
    return {"ends_pipeline": ends, "blocks": blocks}


def write_json(write: ir.Write) -> dict[str, Any]:
    """A table that a plan writes."""
    return {
        "table": ".".join(write.table),
        "mode": write.mode.value,
        "returned": write.returned,
        "place": write.plan_path,
    }


def operators_of(
    roots: Sequence[ir.Relation], shared: Sequence[ir.Relation], kept: Mapping[ir.Relation, str]
) -> list[list[dict[str, Any]]]:
    """The operators of each pipeline that computes one of `roots`, from the operator that ends the pipeline down to its
    exchanges and sources. `kept` names relations whose rows are there already.
    """
    halves = _halves(roots, shared)
    return [list(_operators(root, shared, kept, halves)) for root in roots]


def _operators(
    root: ir.Relation, shared: Sequence[ir.Relation], kept: Mapping[ir.Relation, str], halves: Mapping[ir.Relation, str]
) -> Iterator[dict[str, Any]]:
    used: set[int] = set()
    stack = [(root, 0)]
    while stack:
        relation, depth = stack.pop()
        name = kept.get(relation) if relation is not root else None
        below = () if name is not None else _below(relation, shared, used)
        what = f"{halves.get(relation, '')}{described(relation)}"
        yield {
            "depth": depth,
            "operator": what if name is None else f"{name}, {what}",
            "place": relation.plan_path,
            **marks(ends=relation is root, blocks=name is None and relation.traits.takes == "all"),
        }
        stack.extend((child, depth + (len(below) > 1)) for child in reversed(below))


def _below(relation: ir.Relation, shared: Sequence[ir.Relation], used: set[int]) -> Sequence[ir.Relation]:
    """The relations that a pipeline computes right below a relation; a shared relation at its first use."""
    if isinstance(relation, ir.Exchange):
        return ()
    if isinstance(relation, ir.Shared):
        if relation.ordinal in used:
            return ()
        used.add(relation.ordinal)
        return (shared[relation.ordinal],)
    inner = [subquery.relation for subquery in subqueries_of(relation)]
    return (*tree.read_by(relation), *inner)


def _halves(roots: Sequence[ir.Relation], shared: Sequence[ir.Relation]) -> dict[ir.Relation, str]:
    """The relations that are halves of one relation, on both sides of an exchange or below an exchange that merges what
    they sort.
    """
    halves: dict[ir.Relation, str] = {}
    for root in roots:
        used: set[int] = set()
        stack = [root]
        while stack:
            relation = stack.pop()
            below = _below(relation, shared, used)
            stack.extend(below)
            for exchange in (child for child in below if isinstance(child, ir.Exchange)):
                sent = exchange.input
                if type(sent) is type(relation) and sent.plan_path == relation.plan_path:
                    halves |= {sent: "partial ", relation: "final "}
                elif exchange.order and isinstance(sent, ir.Sort):
                    halves[sent] = "partial "
    return halves

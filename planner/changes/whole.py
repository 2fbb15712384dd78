"""Loops that compute all of their rows anew in every round.

A loop is defined that way. The way costs less than following the changes if a round changes nearly every row: if floats
of the loop are added up for a given number of rounds, as ranks and other weights are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from .. import ir
from ..ir import types as t
from ..ir.arrow_types import arrow_schema
from ..ir.visit import rebuilt, relations, subqueries_of
from ..ir.walk import unroll
from .change_nodes import BackNode, ChangeNode, LoopNode, RecomputeNode, SourceNode
from .rendering import render

_WHY = "floats are added up in each of a given number of rounds, which changes about every row"


def recomputed_whole(loop: ir.Iterate, lowered: ChangeNode, source: Callable[[ir.LoopInput], SourceNode]) -> ChangeNode:
    """The loop with its whole body as one statement, if that is better. `source` gives the node of a loop's input."""
    if not isinstance(lowered, LoopNode) or not _is_better(loop):
        return lowered
    back = BackNode(loop=loop.loop, schema=lowered.schema, plan_path=loop.plan_path)
    ends: list[ir.Reference | ir.LoopInput] = []

    def step(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        """Copies each leaf at each of its positions, since a stream is read once."""
        if not isinstance(relation, ir.Reference | ir.LoopInput):
            return (yield from rebuilt(relation))
        ends.append(replace(relation))
        return ends[-1]

    body = unroll(step, loop.body)
    statement = RecomputeNode(
        inputs=tuple(back if isinstance(end, ir.Reference) else source(end) for end in ends),
        sql=render(body, ends),
        why=_WHY,
        schema=arrow_schema(body.schema),
        plan_path=loop.body.plan_path,
    )
    return replace(lowered, body=statement, whole=True)


def _is_better(loop: ir.Iterate) -> bool:
    """Tests whether recomputing is better: only for loops whose statement reads each input once."""
    if loop.max_rounds is None or loop.at_limit is not ir.AtLimit.RETURN:
        return False
    inside = tuple(relations(loop.body))
    return all(_is_plain(relation) for relation in inside) and any(
        _adds_floats(relation, loop.loop) for relation in inside
    )


def _is_plain(relation: ir.Relation) -> bool:
    if subqueries_of(relation):
        return False
    match relation:
        case ir.Set():
            return relation.operation is ir.SetOperation.UNION_ALL
        case ir.Aggregate():
            return len(relation.grouping_sets) <= 1
        case _:
            leaves = ir.Reference | ir.LoopInput
            return isinstance(relation, ir.Filter | ir.Project | ir.Join | ir.Cross | leaves)


def _adds_floats(relation: ir.Relation, loop: int) -> bool:
    """Tests whether the relation adds up floats of the rows that came back to the loop."""
    return (
        isinstance(relation, ir.Aggregate)
        and any(
            measure.function.name in ("sum", "avg") and isinstance(measure.type, t.Float)
            for measure in relation.measures
        )
        and any(isinstance(part, ir.Reference) and part.loop == loop for part in relations(relation))
    )

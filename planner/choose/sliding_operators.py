"""Turns sliding aggregates into operators that put windows together at the same cost each, however many slices a window
has.

The types decide: `without_numbers` says why an aggregate stays with DuckDB. An aggregate that reads the row of an
enclosing query, or the rows of a loop, stays in the fragment around it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from ...operators.slices import group_codes, state_joins
from .. import ir
from ..analysis.outer_references import OuterReferences
from ..ir.arrow_types import arrow_type
from ..ir.visit import has, rebuilt
from ..ir.walk import unroll
from ..sql.states import states_of

Change = Callable[[ir.Relation], ir.Relation]


def without_numbers(relation: ir.SlidingAggregate | ir.FinalSlidingAggregate) -> str | None:
    """The reason why windows of this aggregate are not put together from numbers; None if they are."""
    keys = relation.keys if isinstance(relation.keys, int) else len(relation.keys)
    for type_ in relation.schema[1 : 1 + keys]:
        if reason := group_codes.obstacle(arrow_type(type_)):
            return reason
    for measure in relation.measures:
        for state in states_of(measure) or ():
            if reason := state_joins.obstacle(state.function, arrow_type(state.type)):
                return reason
    return None


def use_sliding_operators(plan: ir.Plan) -> ir.Plan:
    if not has(plan, ir.SlidingAggregate):
        return plan
    change = sliding_operators()
    return replace(plan, root=change(plan.root), shared=tuple(map(change, plan.shared)))


def sliding_operators() -> Change:
    """A function that gives a relation with such operators in it. It keeps what two relations share."""
    references = OuterReferences()
    done: dict[ir.Relation, ir.Relation] = {}

    def step(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        known = done.get(relation)
        if known is None:
            known = done[relation] = _operator((yield from rebuilt(relation)), references)
        return known

    return lambda root: unroll(step, root)


def _operator(relation: ir.Relation, references: OuterReferences) -> ir.Relation:
    match relation:
        case ir.SlidingAggregate() if without_numbers(relation) is None and references.of(relation).closed:
            return _windows(relation, slices_of(relation, relation.input), len(relation.keys))
        case ir.FinalSlidingAggregate() if without_numbers(relation) is None:
            return _windows(relation, relation.input, relation.keys)
        case _:
            return relation


def slices_of(relation: ir.SlidingAggregate, below: ir.Relation) -> ir.PartialAggregate:
    """The first half of the aggregate over the rows of `below`: groups by slice and keys, and their states."""
    states = [state.type for measure in relation.measures for state in states_of(measure) or ()]
    return ir.PartialAggregate(
        input=below,
        keys=(relation.slice, *relation.keys),
        measures=relation.measures,
        schema=(*relation.schema[: 1 + len(relation.keys)], *states),
        plan_path=relation.plan_path,
    )


def _windows(
    relation: ir.SlidingAggregate | ir.FinalSlidingAggregate, slices: ir.Relation, keys: int
) -> ir.SlidingWindows:
    return ir.SlidingWindows(
        input=slices,
        length=relation.length,
        step=relation.step,
        keys=keys,
        measures=relation.measures,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )

"""Puts each row into each of its windows of time, and groups rows by window.

An aggregate of overlapping windows joins each window from the states of its slices. Some functions have no such states
(distinct values, medians, ordered lists): they need the rows of a window, each row as often as there are windows that
have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...proto.errors import PlanError, Problem
from .. import ir
from ..functions.added_calls import call
from ..ir.building import INT64, columns, filtered, int64, project
from ..ir.visit import has, transform_relations
from ..sql.states import states_of

MOST_COPIES: Final = 1_000
"""The most windows that a row is put into."""


def expand_windows(plan: ir.Plan) -> ir.Plan:
    """The plan without sliding aggregates that have a measure without states."""
    if not has(plan, ir.SlidingAggregate):
        return plan
    root, *shared = (transform_relations(relation, whole_windows) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def whole_windows(relation: ir.Relation) -> ir.Relation:
    """The relation; if it is a sliding aggregate with a measure without states, the aggregate over rows."""
    if isinstance(relation, ir.SlidingAggregate) and any(map(without_states, relation.measures)):
        return windows_of_rows(relation)
    return relation


def without_states(measure: ir.Measure) -> bool:
    """Tests whether a measure has to see all rows of a window at once. The first row of a window is not the first one
    of its slices.
    """
    states = states_of(measure)
    return states is None or any(state.function in ("first", "any_value") for state in states)


def copies(relation: ir.SlidingAggregate) -> int:
    """The most windows that have one slice."""
    return -(-relation.length // relation.step)


def windows_of_rows(relation: ir.SlidingAggregate) -> ir.Aggregate:
    """The aggregate over rows that are put into each of their windows. Raises `PlanError` for too many copies."""
    if copies(relation) > MOST_COPIES:
        raise PlanError(_too_many(relation))
    below = relation.input
    sliced = project(below, (*columns(below.schema), relation.slice), relation.plan_path)
    width = len(below.schema)
    row = columns(sliced.schema)
    copied = ir.Expand(
        input=sliced,
        alternatives=(row,) * copies(relation),
        schema=(*sliced.schema, INT64),
        plan_path=relation.plan_path,
        why=_why(relation),
    )
    step = int64(relation.step)
    slice_, copy = row[width], ir.Field(index=width + 1, type=INT64)
    last = call("time_slice", slice_, step, int64(0))
    numbered = project(copied, (*row, call("subtract", last, copy)), relation.plan_path)
    window = columns(numbered.schema)[-1]
    rows: ir.Relation = numbered
    if relation.length % relation.step:
        since_start = call("subtract", slice_, call("multiply", window, step))
        condition = call("lt", since_start, int64(relation.length))
        rows = filtered(rows, condition)
    return ir.Aggregate(
        input=rows,
        keys=(window, *relation.keys),
        grouping_sets=(tuple(range(1 + len(relation.keys))),),
        measures=relation.measures,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def _whole(relation: ir.SlidingAggregate) -> str:
    """The functions that need all rows of a window."""
    return ", ".join(dict.fromkeys(measure.function.name for measure in relation.measures if without_states(measure)))


def _why(relation: ir.SlidingAggregate) -> str:
    functions = _whole(relation)
    return f"{functions} needs all rows of a window" if functions else "changes go to each of their windows"


def _too_many(relation: ir.SlidingAggregate) -> Problem:
    message = (
        f"{_whole(relation)} must see all rows of a window, and a row is in up to {copies(relation):,} windows; "
        f"at most {MOST_COPIES:,} are allowed: make windows shorter or further apart, or leave these functions out"
    )
    return Problem(place=relation.plan_path, reason="TOO_MANY_WINDOWS", message=message)

"""Lowers windows of time to aggregates.

Windows that share no row are an aggregate by the number of the row's window. Other windows are made of slices of time.
Sessions, and the rows of windows of a number of rows, are numbered by window functions. A barrier ends all windows of a
per-epoch task, so none of its rows is late.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Final, TypeAlias

from ...operators.changes.event_time.window_closing import CountClosing, SessionClosing
from .. import ir
from ..analysis.outer_references import OuterReferences
from ..ir import types as t
from ..ir.visit import has, rebuilt, transform_relations
from ..ir.walk import unroll
from .as_of_joins import as_of, can_be_merged, merged
from .count_windows import count_groups
from .interval_joins import join_of
from .session_windows import session_groups
from .sliced_windows import aggregate_by_mark, sliding_of

_Lower: TypeAlias = Callable[[ir.Relation], ir.Relation]

_OF_TIME: Final = (ir.TimeWindows, ir.LateRows, ir.IntervalJoin, ir.AsOfJoin)
_FALSE: Final = ir.Literal(value=False, type=t.Boolean(nullable=False))


def end_windows_at_barriers(plan: ir.Plan) -> ir.Plan:
    """The plan with all windows of time as aggregates, and without late rows."""
    if not has(plan, *_OF_TIME):
        return plan
    references = OuterReferences()

    def step(visited: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        relation = yield from rebuilt(visited)
        if isinstance(relation, ir.AsOfJoin) and references.of(visited).closed and can_be_merged(relation):
            return merged(relation)
        return _without_rows_or_windows(relation)

    root, *shared = (unroll(step, relation) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def lower_windows_of_changes(plan: ir.Plan) -> ir.Plan:
    """The plan with the windows of time that give changes as aggregates."""
    return _lowered(plan, lambda relation: relation if _is_final(relation) else _without_rows_or_windows(relation))


def aggregate_of(windows: ir.TimeWindows) -> ir.Relation:
    """The aggregate over the rows of all windows."""
    closing = windows.closing
    if isinstance(closing, SessionClosing):
        return session_groups(windows, closing.gap)
    if isinstance(closing, CountClosing):
        return count_groups(windows, closing)
    if closing.length == closing.step:
        return aggregate_by_mark(windows)
    return sliding_of(windows, closing.length, closing.step)


def _lowered(plan: ir.Plan, lower: _Lower) -> ir.Plan:
    if not has(plan, *_OF_TIME):
        return plan
    root, *shared = (transform_relations(relation, lower) for relation in (plan.root, *plan.shared))
    return replace(plan, root=root, shared=tuple(shared))


def _is_final(relation: ir.Relation) -> bool:
    return isinstance(relation, ir.OfTime) and (isinstance(relation, ir.LateRows) or relation.final)


def _without_rows_or_windows(relation: ir.Relation) -> ir.Relation:
    match relation:
        case ir.TimeWindows():
            return aggregate_of(relation)
        case ir.IntervalJoin():
            return join_of(relation)
        case ir.AsOfJoin():
            return as_of(relation, relation.left, relation.right, relation.right)
        case ir.LateRows(on_time=True):
            return relation.input
        case ir.LateRows():
            return ir.Filter(
                input=relation.input, condition=_FALSE, schema=relation.schema, plan_path=relation.plan_path
            )
        case _:
            return relation

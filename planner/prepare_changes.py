"""Prepares a decoded plan for a continuous task: checks it, rewrites it, lowers it to operators on changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from ..operators.sources.change_column import WEIGHT, WEIGHT_FIELD
from ..proto.errors import PlanError, Problem
from ..proto.values import Explanation, TaskOptions
from . import ir
from .analysis.source_horizons import horizons, warnings
from .changes.change_nodes import ChangeNode, nodes_of
from .changes.lower_changes import lower
from .explain.explain_changes import explain
from .explain.state_bounds import unbounded
from .ir import arrow_types
from .physical.sources import PlannedSource, check, sources
from .prepare import Decoded, columns_of, problems_of, result_columns
from .rewrite import REWRITES
from .rewrite.prune_columns import prune_columns
from .rewrite.reduce_aggregates import reduce_aggregates
from .rewrite.split_expressions import split_expressions
from .rewrite.time_windows import end_windows_at_barriers, lower_windows_of_changes

Pass: TypeAlias = Callable[[ir.Plan], ir.Plan]

_OTHERWISE: Final[dict[Pass, Pass]] = {end_windows_at_barriers: lower_windows_of_changes}
_REWRITES: Final = tuple(_OTHERWISE.get(pass_, pass_) for pass_ in REWRITES if pass_ is not reduce_aggregates)
"""The rewrites for operators on changes. Groups follow the change, so to make some groups again whenever another side
changes would cost more, not less. Final windows keep their form.
"""


_INTERVAL: Final = (
    "an interval of months and days can be written in several equal forms, so a change does not determine the row"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedTable:
    """A table that a plan writes beside its result, and the table's columns."""

    write: ir.Write
    columns: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedChanges:
    """A plan as operators on changes. `columns` are the columns of its rows, and of the table if it has a `write`;
    `schema` has the columns of the result, and the row's weight behind them. `side_tables` are written beside it.
    """

    root: ChangeNode
    options: TaskOptions
    columns: pa.Schema
    sources: tuple[PlannedSource, ...]
    warnings: tuple[str, ...]
    write: ir.Write | None = None
    side_tables: tuple[PreparedTable, ...] = ()

    @property
    def result(self) -> pa.Schema:
        """The columns of the result, without the weight."""
        return result_columns(self.write, self.columns)

    @property
    def schema(self) -> pa.Schema:
        return self.result.append(WEIGHT_FIELD)

    def explain(self) -> Explanation:
        """The plan explained to people and programs: the operators, which of them follow the change, and the
        reasons.
        """
        return explain(self.root, self.sources, self.schema, self.options, self.warnings, self.writes)

    @property
    def writes(self) -> Sequence[ir.Write | None]:
        """The write of the result, or None, and then those of the side tables."""
        return (self.write, *(table.write for table in self.side_tables))


def prepare_changes(decoded: Decoded, options: TaskOptions, static: Collection[str] = ()) -> PreparedChanges:
    """Prepares a plan for a continuous task, as `planner.prepare.prepare` does for a task per epoch."""
    plan, names = decoded.plan, frozenset(static)

    def is_static(read: ir.Read) -> bool:
        return read.source in names

    def planned_sources(of: ir.Plan) -> tuple[PlannedSource, ...]:
        planned = sources(of, is_static, plan)
        _check_names(of, planned)
        return planned

    checks = (
        lambda: check(plan),
        lambda: planned_sources(prune_columns(plan)),
        lambda: split_expressions(plan),
        lambda: lower(plan, options.loop_rows, options.loop_seconds),
    )
    try:
        check(plan)
        rewritten = _rewritten(plan)
        planned = _with_horizons(planned_sources(rewritten), rewritten)
        lowered = lower(rewritten, options.loop_rows, options.loop_seconds)
        _check_types(lowered.root)
        fed = {source.name: source.event_time for source in planned if not source.static}
        growing = unbounded(lowered.root, fed) if any(fed.values()) else ()
    except PlanError as error:
        raise PlanError(*problems_of(plan, checks, error)) from error
    return PreparedChanges(
        root=lowered.root,
        options=options,
        columns=columns_of(rewritten),
        sources=planned,
        warnings=(*decoded.warnings, *lowered.warnings, *warnings(rewritten, fed), *growing),
        write=rewritten.write,
        side_tables=tuple(_prepared_table(rewritten, side) for side in rewritten.side_tables),
    )


def _prepared_table(plan: ir.Plan, side: ir.SideTable) -> PreparedTable:
    columns = arrow_types.schema(plan.shared[side.ordinal].schema, side.write.table_names)
    return PreparedTable(write=side.write, columns=columns)


def _rewritten(plan: ir.Plan) -> ir.Plan:
    for pass_ in _REWRITES:
        plan = pass_(plan)
    return prune_columns(plan, narrow=True)


def _with_horizons(planned: Sequence[PlannedSource], plan: ir.Plan) -> tuple[PlannedSource, ...]:
    ends = horizons(plan)
    return tuple(
        source
        if source.event_time is None
        else replace(source, event_time=replace(source.event_time, horizon=ends.get(source.name)))
        for source in planned
    )


def _check_names(plan: ir.Plan, planned: Collection[PlannedSource]) -> None:
    """Refuses a column in use that has the name of the weight column."""
    problems = []
    for source in planned:
        problems += [
            _reserved(source.plan_paths[0], f"column {column.name!r} of source {source.name!r}")
            for column in source.columns
            if column.name.casefold() == WEIGHT
        ]
    if WEIGHT in (name.casefold() for name in columns_of(plan).names):
        problems.append(_reserved(plan.root.plan_path, f"column {WEIGHT!r} of the result"))
    if problems:
        raise PlanError(*problems)


def _check_types(root: ChangeNode) -> None:
    """Refuses types whose equal values can differ: a change counts equal rows, so rows must be told apart."""
    problems = {
        Problem(
            place=node.plan_path,
            reason="UNSUPPORTED_TYPE",
            message=f"{_INTERVAL}: cast the interval, or run the plan per epoch",
        )
        for node in nodes_of(root)
        if any(kinds.is_interval(field.type) for field in node.schema)
    }
    if problems:
        raise PlanError(*sorted(problems, key=lambda problem: problem.place))


def _reserved(plan_path: str, what: str) -> Problem:
    message = (
        f"{what}: in a continuous task {WEIGHT} is the column of the weights: give this column another name. If the "
        "column has the weights of the data, leave it out of the plan, and name it as the change_column of the split"
    )
    return Problem(place=plan_path, reason="RESERVED_COLUMN", message=message)

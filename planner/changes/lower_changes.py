"""Lowers relations to operators on changes.

Each relation becomes a node, or a few nodes, over the nodes of its inputs; a family's module does that. A relation
without a form that works on changes is computed again from all of its inputs' rows (`recomputed_parts`), and gives the
reason.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from ...proto.errors import InternalError, PlanError, Problem
from .. import ir
from ..ir.arrow_types import arrow_schema
from ..ir.walk import unroll
from ..rewrite.expand_windows import MOST_COPIES, copies, windows_of_rows
from .aggregates import lower_aggregate
from .change_nodes import BackNode, ChangeNode, ConstantNode, OutputsNode, SourceNode
from .event_time.floors import with_floors
from .event_time.lower_final_joins import lower_final_as_of, lower_final_join, ticks_of_sides, timed
from .event_time.lower_final_windows import check_outside_of_loops, lower_final_windows, lower_late_rows, marked
from .joins import lower_cross, lower_join, lower_merge_join
from .loops import lower_iterate, lower_unreferenced
from .orders import (
    counts_by_subquery,
    limit_without_order,
    lower_fetch,
    lower_sort,
    lower_top,
    ordered_by_all,
    sort_below_limits,
    top_of,
)
from .ranked import limit_above
from .recomputed_parts import lower_by_recomputing
from .rendering import render
from .rows_taken_back import check_write
from .rowwise import Chain, chain_below, lower_chain, lower_unnest
from .sets import lower_set
from .unnesting import CannotPull, Unnesting, needs_rewriting
from .whole import recomputed_whole
from .windows import lower_window

Step: TypeAlias = Generator[ir.Relation, ChangeNode, ChangeNode]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lowered:
    """A plan's graph, by its last node, and warnings for a person."""

    root: ChangeNode
    warnings: tuple[str, ...] = ()


def lower(plan: ir.Plan, max_rows: int, max_seconds: float = 0) -> Lowered:
    """The plan as operators on changes. Raises `PlanError` for a plan that cannot run continuously. Each loop may have
    `max_rows` rows, and take `max_seconds` in an epoch; 0 is no limit.
    """
    root, *shared = map(sort_below_limits, (plan.root, *plan.shared))
    lowering = _Lowering(shared, max_rows, max_seconds)
    result = unroll(lowering.step, root)
    tables = [unroll(lowering.step, _written(plan, side)) for side in plan.side_tables]
    check_write(plan.write, result)
    for side, table in zip(plan.side_tables, tables, strict=True):
        check_write(side.write, table)
    outputs = OutputsNode(inputs=(result, *tables), schema=result.schema, plan_path=result.plan_path)
    return Lowered(root=with_floors(outputs if tables else result), warnings=tuple(lowering.warnings))


def _written(plan: ir.Plan, side: ir.SideTable) -> ir.Relation:
    return ir.Shared(ordinal=side.ordinal, schema=plan.shared[side.ordinal].schema, plan_path=side.write.plan_path)


def lower_loop(relation: ir.Rounds) -> ChangeNode:
    """A loop over the rows of its inputs, in one epoch."""
    iterate = sort_below_limits(relation.iterate)
    lowered = unroll(_Lowering((), relation.max_rows, relation.max_seconds).step, iterate)
    return recomputed_whole(relation.iterate, lowered, _loop_input)


def input_name(port: int) -> str:
    """The name of the source that stands for a loop's input."""
    return f"in{port}"


@dataclass(slots=True)
class _Lowering:
    shared: Sequence[ir.Relation]
    max_rows: int
    max_seconds: float
    warnings: list[str] = field(default_factory=list)
    _common: dict[int, ChangeNode] = field(default_factory=dict)
    _backs: dict[int, BackNode] = field(default_factory=dict)
    _unnesting: Unnesting = field(default_factory=Unnesting)

    def step(self, relation: ir.Relation) -> Step:
        if isinstance(relation, ir.Shared):
            if relation.ordinal not in self._common:
                self._common[relation.ordinal] = yield self.shared[relation.ordinal]
            return self._common[relation.ordinal]
        if isinstance(relation, ir.Fetch | ir.TopN) and counts_by_subquery(relation):
            why = "the number of rows to keep is computed"
            return (yield from self._recomputed(ordered_by_all(relation), why))
        if not needs_rewriting(relation):
            return (yield from self._lowered(relation))
        try:
            joined = self._unnesting.rewritten(relation)
        except CannotPull as reason:
            return (yield from self._recomputed(relation, str(reason)))
        return (yield joined)

    def _lowered(self, relation: ir.Relation) -> Step:  # noqa: C901 (a line per relation)
        if relation.traits.changes == "recomputed":
            return (yield from self._recomputed(relation, f"a {relation.traits.name} starts from all rows"))
        if not isinstance(relation, ir.OwnChanges):
            raise InternalError(f"{relation.plan_path}: a {relation.traits.name} has no form on changes")
        match relation:
            case ir.Read() | ir.LocalFiles():
                return _source(relation)
            case ir.Values():
                schema = arrow_schema(relation.schema)
                return ConstantNode(sql=render(relation, ()), schema=schema, plan_path=relation.plan_path)
            case ir.Filter() | ir.Project() | ir.Expand():
                base = chain_below(relation)
                limit = limit_above(relation, base)
                if isinstance(base, ir.Window) and limit is not None:
                    windows = lower_window(base, limit.rows((yield base.input)))
                    return lower_chain(relation, base, windows, alone=True)
                return lower_chain(relation, base, (yield base), alone=not isinstance(base, ir.Shared))
            case ir.Unnest():
                return lower_unnest(relation, (yield relation.input))
            case ir.Join():
                return lower_join(relation, (yield relation.left), (yield relation.right))
            case ir.Cross():
                return lower_cross(relation, (yield relation.left), (yield relation.right))
            case ir.Aggregate():
                return lower_aggregate(relation, (yield relation.input))
            case ir.SlidingAggregate() if copies(relation) > MOST_COPIES:
                return (yield from self._recomputed(relation, f"a row is in more than {MOST_COPIES:,} windows"))
            case ir.SlidingAggregate():
                return (yield windows_of_rows(relation))
            case ir.TimeWindows() | ir.LateRows():
                return (yield from self._final(relation))
            case ir.IntervalJoin() | ir.AsOfJoin():
                return (yield from self._final_join(relation))
            case ir.Set():
                inputs = []
                for child in relation.inputs:
                    inputs.append((yield child))  # noqa: PERF401 (a comprehension cannot yield)
                return lower_set(relation, inputs)
            case ir.Window():
                return lower_window(relation, (yield relation.input))
            case ir.Sort():
                return lower_sort(relation, (yield relation.input), self.warnings)
            case ir.Fetch(input=ir.Sort() as sort) if needs_rewriting(sort):
                return (yield top_of(relation, sort))
            case ir.Fetch(input=ir.Sort() as sort):
                return lower_fetch(relation, sort, (yield sort.input))
            case ir.Fetch():
                raise PlanError(limit_without_order(relation))
            case ir.TopN():
                return lower_top(relation, (yield relation.input))
            case ir.MergeJoin():
                return lower_merge_join(relation, (yield relation.left), (yield relation.right))
            case ir.StreamingAggregate():
                return lower_aggregate(_unsorted(relation), (yield relation.input))
            case ir.IndexLookup() | ir.IndexTable():
                raise PlanError(_lookup_in_outside(relation))
            case ir.User():
                raise PlanError(_user_over_changes(relation))
            case ir.PackLists():
                raise PlanError(_packing_over_changes(relation))
            case ir.Iterate():
                body = yield relation.body
                entering = None if relation.input is None else (yield relation.input)
                if relation.loop not in self._backs:
                    return lower_unreferenced(relation, body, entering)
                return lower_iterate(relation, body, entering, self.max_rows, self.max_seconds)
            case ir.Reference():
                return self._back(relation)
            case ir.LoopInput():
                return _loop_input(relation)
            case _:
                assert_never(relation)

    def _final_join(self, relation: ir.IntervalJoin | ir.AsOfJoin) -> Step:
        check_outside_of_loops(relation)
        sides = []
        for rows, tick in zip((relation.left, relation.right), ticks_of_sides(relation), strict=True):
            with_marks = marked(rows, self.shared)
            node = yield rows if with_marks is None else with_marks
            sides.append(timed(rows, tick, node, marks=with_marks is not None))
        left, right = sides
        if isinstance(relation, ir.AsOfJoin):
            return lower_final_as_of(relation, left, right)
        return lower_final_join(relation, left, right)

    def _final(self, relation: ir.TimeWindows | ir.LateRows) -> Step:
        check_outside_of_loops(relation)
        with_marks = marked(relation.input, self.shared)
        rows = relation.input if with_marks is None else with_marks
        base = chain_below(rows)
        if isinstance(base, ir.Window):
            base = rows  # a limit above it is part of the window's work
        chain = Chain(rows, base, (yield base))
        if isinstance(relation, ir.LateRows):
            return lower_late_rows(relation, chain, marks=with_marks is not None)
        return lower_final_windows(relation, chain, marks=with_marks is not None)

    def _back(self, relation: ir.Reference) -> BackNode:
        """The one node for all references to a loop."""
        schema = arrow_schema(relation.schema)
        return self._backs.setdefault(
            relation.loop, BackNode(loop=relation.loop, schema=schema, plan_path=relation.plan_path)
        )

    def _recomputed(self, relation: ir.Relation, why: str) -> Step:
        return (yield from lower_by_recomputing(relation, self.shared, why))


def _source(relation: ir.Read | ir.LocalFiles) -> SourceNode:
    return SourceNode(
        source=relation.source,
        columns=relation.names,
        schema=arrow_schema(relation.schema),
        plan_path=relation.plan_path,
    )


def _loop_input(relation: ir.LoopInput) -> SourceNode:
    schema = arrow_schema(relation.schema)
    columns = tuple(f"c{at}" for at in range(len(schema)))
    return SourceNode(source=input_name(relation.port), columns=columns, schema=schema, plan_path=relation.plan_path)


def _unsorted(relation: ir.StreamingAggregate) -> ir.Aggregate:
    """The aggregate without its order. Changes come in no order, so the order of its input makes no difference."""
    return ir.Aggregate(
        input=relation.input,
        keys=relation.keys,
        grouping_sets=(tuple(range(len(relation.keys))),),
        measures=relation.measures,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def _lookup_in_outside(relation: ir.IndexLookup | ir.IndexTable) -> Problem:
    message = (
        "a look-up reads its index at one moment, and does not notice later changes of the index: feed the table as "
        "a source, and join with the source"
    )
    return Problem(place=relation.plan_path, reason="LOOKUP_OVER_CHANGES", message=message)


def _packing_over_changes(relation: ir.PackLists) -> Problem:
    message = (
        "a packing places each list by the rows before it, so in a continuous task, whose rows come in no order, "
        "and in a loop, it has no meaning: run the plan in per-epoch mode, and pack outside of loops"
    )
    return Problem(place=relation.plan_path, reason="PACKING_OVER_CHANGES", message=message)


def _user_over_changes(relation: ir.User) -> Problem:
    message = (
        f"user operator {relation.name!r} computes each epoch from the epoch's rows alone, so a continuous task or a "
        "loop cannot tell how its result changes with its input: run the plan in per-epoch mode, and the operator "
        "outside of loops"
    )
    return Problem(place=relation.plan_path, reason="USER_OPERATOR_OVER_CHANGES", message=message)

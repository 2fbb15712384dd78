"""Final windows of time on changes: late rows are taken out, and each window is given once.

Rows whose lateness has to be known are *marked*: behind their columns they have the watermark at their position in
their source.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, cast

from ....operators.changes.event_time.final_sliding_windows import SliceStates
from ....operators.changes.event_time.interval_closing import IntervalClosing
from ....operators.changes.event_time.window_closing import (
    NEVER,
    AnyClosing,
    CalendarClosing,
    CountClosing,
    SessionClosing,
    SlicedClosing,
)
from ....operators.slices.state_joins import StateFunction
from ....proto.errors import PlanError, Problem
from ... import ir
from ...functions.added_calls import call
from ...ir import tree
from ...ir import types as t
from ...ir.arrow_types import arrow_schema, sql_type
from ...ir.building import INT64, columns, filtered, int64, project
from ...ir.visit import parts, relations, subqueries_of, transform_relations, with_positions
from ...ir.walk import unroll
from ...rewrite.count_windows import groups_by_position, of_measures, read_by_measures
from ...rewrite.expand_windows import whole_windows, windows_of_rows
from ...rewrite.session_windows import session_groups
from ...rewrite.sliced_windows import aggregate_by_mark, sliding_of
from ...sql.relations.sliding_aggregate import floor_division
from ...sql.states import render_total, render_value, states_of
from ..aggregates import Slices, slices_of
from ..change_nodes import MARK, ChangeNode, FinalCountsNode, FinalSessionsNode, FinalWindowsNode, OnTimeNode
from ..rendering import leaf, render
from ..rowwise import Chain, lower_chain
from ..sets import distinct

_NO_MARK: Final = int64(NEVER)

_Marking: TypeAlias = Generator[ir.Relation, "ir.Relation | None", "ir.Relation | None"]


def marked(relation: ir.Relation, shared: Sequence[ir.Relation]) -> ir.Relation | None:
    """The relation with the watermark at each row behind its columns. None if no row of it is a source's row that has
    one: rows of filters, projections and unions are, and other rows come at the end of an epoch, in no order.
    """

    def step(relation: ir.Relation) -> _Marking:
        match relation:
            case ir.Shared():
                return (yield shared[relation.ordinal])
            case ir.Read(watermark=ir.RowWatermark()) | ir.LocalFiles(watermark=ir.RowWatermark()):
                return replace(relation, names=(*relation.names, MARK), schema=(*relation.schema, INT64))
            case ir.Filter() if not _has_subqueries(relation):
                below = yield relation.input
                return None if below is None else replace(relation, input=below, schema=below.schema)
            case ir.Project() if not _has_subqueries(relation):
                below = yield relation.input
                return None if below is None else _with(relation, below, columns(below.schema)[-1])
            case ir.Set(operation=ir.SetOperation.UNION_ALL):
                sides = []
                for side in relation.inputs:
                    sides.append((yield side))  # noqa: PERF401 (a comprehension cannot yield)
                return _union(relation, sides)
            case _:
                return None

    return unroll(step, relation)


def _with(relation: ir.Project, below: ir.Relation, mark: ir.Expression) -> ir.Project:
    return replace(
        relation, input=below, expressions=(*relation.expressions, mark), schema=(*relation.schema, mark.type)
    )


def _union(relation: ir.Set, sides: Sequence[ir.Relation | None]) -> ir.Relation | None:
    if not any(sides):
        return None
    inputs = []
    for side, plain in zip(sides, relation.inputs, strict=True):
        inputs.append(_with(tree.all_of(plain), plain, _NO_MARK) if side is None else side)
    return replace(relation, inputs=tuple(inputs), schema=(*relation.schema, INT64))


def _has_subqueries(relation: ir.Relation) -> bool:
    return bool(subqueries_of(relation))


def check_outside_of_loops(relation: ir.OfTime) -> None:
    """Refuses final windows inside of a loop: a round has no watermark."""
    if any(isinstance(part, ir.Reference) for part in relations(relation)):
        message = (
            f"{relation.traits.name} inside of a loop cannot wait for a watermark, because a loop ends before the "
            "epoch's watermark is known: move it above the loop, or leave `final` out"
        )
        raise PlanError(Problem(place=relation.plan_path, reason="FINAL_IN_LOOP", message=message))


def lower_late_rows(relation: ir.LateRows, chain: Chain, *, marks: bool) -> ChangeNode:
    schema = relation.schema
    wide = _wide(relation, chain, (relation.ends or relation.mark, *columns(schema)), marks=marks)
    return OnTimeNode(
        input=wide,
        closing=relation.closing,
        output=range(1, 1 + len(schema)),
        marked=marks,
        late=not relation.on_time,
        schema=arrow_schema(schema),
        plan_path=relation.plan_path,
    )


def lower_final_windows(relation: ir.TimeWindows, chain: Chain, *, marks: bool) -> ChangeNode:
    """The windows over rows of the mark, the keys, and the columns that measures read."""
    below, keys, plan_path = relation.input.schema, relation.keys, relation.plan_path
    read = read_by_measures(relation)
    carried = (relation.mark, *keys, *(ir.Field(index=at, type=below[at]) for at in read))
    types = tuple(expression.type for expression in carried)
    judged_by = () if relation.ends is None else (relation.ends,)
    rows = OnTimeNode(
        input=_wide(relation, chain, (*judged_by, *carried), marks=marks),
        closing=relation.closing,
        output=range(len(judged_by), len(judged_by) + len(types)),
        marked=marks,
        late=False,
        schema=arrow_schema(types),
        plan_path=plan_path,
    )
    schema = arrow_schema(relation.schema)
    positions = {at: 1 + len(keys) + number for number, at in enumerate(read)}
    match relation.closing:
        case SessionClosing() as closing:
            base = leaf(types, plan_path)
            sessions = session_groups(_over(relation, base, positions), closing.gap)
            sql = render(sessions, [base])
            return FinalSessionsNode(
                input=rows, keys=len(keys), closing=closing, sql=sql, schema=schema, plan_path=plan_path
            )
        case CountClosing() as closing:
            base = leaf((*types, INT64, INT64), plan_path)
            *_, position, wanted = columns(base.schema)
            counted = groups_by_position(_over(relation, base, positions), closing, position, wanted)
            sql = render(transform_relations(counted, whole_windows), [base])
            return FinalCountsNode(
                input=rows, keys=len(keys), closing=closing, sql=sql, schema=schema, plan_path=plan_path
            )
        case closing:
            return _sliced(relation, closing, rows, types, positions)


def _sliced(
    relation: ir.TimeWindows, closing: SlicedClosing, rows: OnTimeNode, types: ir.Schema, positions: dict[int, int]
) -> ChangeNode:
    """Windows over slices whose numbers are kept, or over rows if the measures cannot be put together from numbers."""
    plan_path = relation.plan_path
    slice_sql = _slice_of_tick(relation) if isinstance(closing, CalendarClosing) else None
    if relation.at_once:
        return replace(distinct(rows, plan_path=plan_path), closing=closing, slice_sql=slice_sql)
    windows = _over(relation, leaf(types, plan_path), positions)
    slices = slices_of(aggregate_by_mark(windows), rows, closing, slice_sql)
    states: SliceStates | None = None
    if closing.length > closing.step:
        states = _states_of_rows(windows) if slices is None else _states_of(slices)
    if states is not None:
        sql = None if slices is not None and slices.plain else _of_joined_states(windows)
    elif slices is not None:
        sql = None if slices.plain and closing.length == closing.step == 1 else _windows_of_slices(windows, closing)
    else:
        base = leaf((*types, INT64, INT64), plan_path)
        sql = render(_wanted(_over(relation, base, positions), closing), [base])
    return FinalWindowsNode(
        input=rows if slices is None else slices.groups,
        keys=len(relation.keys),
        closing=closing,
        slice_sql=slice_sql,
        states=states,
        sql=sql,
        schema=arrow_schema(relation.schema),
        plan_path=plan_path,
    )


def _states_of(slices: Slices) -> SliceStates:
    return SliceStates(functions=slices.functions, schema=slices.groups.schema, sql=None)


def _states_of_rows(windows: ir.TimeWindows) -> SliceStates | None:
    """The states of slices, made from their rows. None if a measure has to see all rows of a window."""
    of_measures = [states_of(measure) for measure in windows.measures]
    states = [state for of_measure in of_measures for state in of_measure or ()]
    if None in of_measures or any(state.function == "any_value" for state in states):
        return None
    groups = aggregate_by_mark(windows)
    partial = ir.PartialAggregate(
        input=groups.input,
        keys=groups.keys,
        measures=groups.measures,
        schema=(*(key.type for key in groups.keys), *(state.type for state in states)),
        plan_path=groups.plan_path,
    )
    functions = cast("tuple[StateFunction, ...]", tuple(state.function for state in states))
    return SliceStates(functions=functions, schema=arrow_schema(partial.schema), sql=render(partial, [groups.input]))


def _wide(
    relation: ir.TimeWindows | ir.LateRows, chain: Chain, expressions: tuple[ir.Expression, ...], *, marks: bool
) -> ChangeNode:
    """The expressions over the rows that are in a window, and the watermarks at the rows."""
    if marks:
        expressions = (*expressions, ir.Field(index=len(relation.input.schema), type=INT64))
    rows = _in_a_window(chain.rows, relation.mark, relation.closing)
    return lower_chain(project(rows, expressions, relation.plan_path), chain.base, chain.node)


def _in_a_window(rows: ir.Relation, mark: ir.Expression, closing: AnyClosing | IntervalClosing) -> ir.Relation:
    """The rows that are in a window, where windows leave gaps."""
    if isinstance(closing, SessionClosing | CountClosing | IntervalClosing) or closing.length >= closing.step:
        return rows
    step = int64(closing.step)
    number = call("time_slice", mark, step, int64(0))
    since = call("subtract", mark, call("multiply", number, step))
    condition = call("lt", since, int64(closing.length))
    return filtered(rows, condition)


def _over(relation: ir.TimeWindows, base: ir.Relation, positions: dict[int, int]) -> ir.TimeWindows:
    """The windows over rows that have the mark and the keys as their first columns."""
    mark, *fields = columns(base.schema)
    moved = (with_positions(expression, positions.__getitem__) for expression in of_measures(relation))
    over = tree.with_expressions(replace(relation, input=base, ends=None, keys=()), (mark, *moved))
    assert isinstance(over, ir.TimeWindows)
    return replace(over, keys=tuple(fields[: len(relation.keys)]))


def _slice_of_tick(relation: ir.TimeWindows) -> str:
    """The SQL that gives the number of the slice that has a tick."""
    calls = (part for part in parts(relation.mark) if isinstance(part, ir.Call))
    mark = next(slice_call for slice_call in calls if slice_call.function.name == "calendar_slice")
    moment, *slices = mark.arguments
    assert not isinstance(moment, str)
    base = leaf((INT64,), relation.plan_path)
    zero = ir.Literal(value=0, type=t.required(moment.type))
    tick = call("slice_start", *columns(base.schema), int64(1), zero)
    slice_ = replace(mark, arguments=(tick, *slices))
    return render(project(base, (slice_,), relation.plan_path), [base])


def _of_joined_states(windows: ir.TimeWindows) -> str:
    """The SQL of the rows of windows over their number, the keys and the joined states."""
    values = _measures(windows, render_value)
    columns = [f"c{at}" for at in range(1 + len(windows.keys))]
    return f"SELECT {', '.join((*columns, *values))} FROM in0"


def _windows_of_slices(windows: ir.TimeWindows, closing: SlicedClosing) -> str:
    """The SQL of windows that share no slice, over the states of slices. The last two columns are the numbers of the
    first and the last wanted window.
    """
    keys = [f"c{at}" for at in range(1, 1 + len(windows.keys))]
    states = sum(len(states_of(measure) or ()) for measure in windows.measures)
    first, last = (f"c{1 + len(keys) + states + at}" for at in range(2))
    number = floor_division("c0", closing.step)
    rows = f"SELECT *, {number} AS n FROM in0 WHERE {number} BETWEEN {first} AND {last}"
    select = ", ".join(("n", *keys, *_measures(windows, render_total)))
    by = ", ".join(("n", *keys))
    return f"SELECT {select} FROM ({rows}) GROUP BY {by}"


def _measures(windows: ir.TimeWindows, rendered: Callable[[ir.Measure, Sequence[str]], str]) -> list[str]:
    """The SQL of each measure from its states, which are behind the keys."""
    at = 1 + len(windows.keys)
    values = []
    for measure in windows.measures:
        states = [f"c{at + number}" for number, _ in enumerate(states_of(measure) or ())]
        at += len(states)
        values.append(f"CAST({rendered(measure, states)} AS {sql_type(measure.type)})")
    return values


def _wanted(relation: ir.TimeWindows, closing: SlicedClosing) -> ir.Relation:
    """The windows from the first to the last wanted one. The rows' last two columns are the numbers of these."""
    if closing.length == closing.step:
        return aggregate_by_mark(relation)
    groups = windows_of_rows(sliding_of(relation, closing.length, closing.step))
    below = groups.input
    *_, first, last = columns(relation.input.schema)
    number = groups.keys[0]
    condition = call("and", call("gte", number, first), call("lte", number, last))
    return replace(groups, input=filtered(below, condition, relation.plan_path))

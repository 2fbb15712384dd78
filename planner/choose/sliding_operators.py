"""Turns sliding aggregates into operators that put windows together at the same cost each, however many slices a window
has.

The types decide: `without_numbers` says why an aggregate stays with DuckDB. An aggregate that reads the row of an
enclosing query, or the rows of a loop, stays in the fragment around it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Final

from ...operators.slices import group_codes, state_joins
from .. import ir
from ..analysis.outer_references import OuterReferences
from ..analysis.sliced_columns import sliced_column
from ..ir import tree
from ..ir import types as t
from ..ir.arrow_types import arrow_type
from ..ir.building import project
from ..ir.visit import has, is_column, rebuilt
from ..ir.walk import unroll
from ..sql.states import states_of

_SLICED: Final = frozenset({"time_slice", "calendar_slice"})
_NUMBERS: Final = (t.Integer,)
_NUMBERED: Final = (t.Integer, t.String, t.VarChar, t.Binary)
"""The types of keys below sliding windows. Those that are no whole numbers are numbered."""
_IN_ARRAYS: Final = frozenset({"sum", "count", "min", "max"})

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
    """The plan of a task with one channel."""
    if not has(plan, ir.SlidingAggregate, ir.Aggregate):
        return plan
    change = sliding_operators(tumbling=True)
    return replace(plan, root=change(plan.root), shared=tuple(map(change, plan.shared)))


def sliding_operators(*, tumbling: bool = False) -> Change:
    """A function that gives a relation with such operators in it, also for windows that share no row if `tumbling`. It
    keeps what two relations share.
    """
    references = OuterReferences()
    done: dict[ir.Relation, ir.Relation] = {}

    def step(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        known = done.get(relation)
        if known is None:
            known = done[relation] = _operator((yield from rebuilt(relation)), references, tumbling)
        return known

    return lambda root: unroll(step, root)


def _operator(relation: ir.Relation, references: OuterReferences, tumbling: bool) -> ir.Relation:
    match relation:
        case ir.Aggregate() if (
            (tumbling or _is_cut(relation)) and _is_tumbling(relation) and references.of(relation).closed
        ):
            return _in_arrays(relation, _NUMBERS) or relation
        case ir.PartialAggregate() if is_sliced(relation) and references.of(relation).closed:
            return _in_arrays(relation, _NUMBERS) or relation
        case ir.FinalAggregate() if _joins_arrays(relation):
            return ir.FinalDenseSlices(
                input=relation.input,
                keys=relation.keys,
                measures=relation.measures,
                schema=relation.schema,
                plan_path=relation.plan_path,
            )
        case ir.SlidingAggregate() if without_numbers(relation) is None and references.of(relation).closed:
            return _windows(relation, _slices(relation), len(relation.keys))
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


def _slices(relation: ir.SlidingAggregate) -> ir.Relation:
    slices = slices_of(relation, relation.input)
    return _in_arrays(slices, _NUMBERED) or slices


def _joins_arrays(aggregate: ir.FinalAggregate) -> bool:
    """Tests whether the aggregate joins groups that the channels have made in arrays."""
    sent = aggregate.input
    return isinstance(sent, ir.Exchange) and isinstance(sent.input, ir.DenseSlices)


def _is_cut(aggregate: ir.Aggregate) -> bool:
    """Tests whether a source somewhere below, with no exchange between, is read in ranges of slices like those of the
    first key. The planner lets such a source be read so only where each channel then has whole slices.
    """
    sliced = sliced_column(aggregate.keys[0]) if aggregate.keys else None
    below: list[ir.Relation] = [aggregate.input]
    while sliced is not None and below:
        relation = below.pop()
        if isinstance(relation, ir.Read | ir.LocalFiles):
            if relation.cut is not None and relation.cut.slices == sliced.slices:
                return True
        elif not isinstance(relation, ir.Exchange):
            below.extend(tree.inputs(relation))
    return False


def _is_tumbling(aggregate: ir.Aggregate) -> bool:
    """Tests whether an aggregate is one of windows of time that share no row, in which no row without a time is."""
    return aggregate.grouping_sets == (tuple(range(len(aggregate.keys))),) and is_sliced(aggregate)


def is_sliced(aggregate: ir.PartialAggregate | ir.Aggregate) -> bool:
    """Tests whether the first key numbers slices of time."""
    if not aggregate.keys:
        return False
    mark = aggregate.keys[0]
    return isinstance(mark, ir.Call) and mark.function.name in _SLICED and not mark.type.nullable


def _in_arrays(aggregate: ir.PartialAggregate | ir.Aggregate, key_types: tuple[type, ...]) -> ir.DenseSlices | None:
    """The groups of slices in arrays, if all keys have these types, and all measures are counts and sums, least and
    greatest values of whole numbers. (Groups of Parquet files by texts that are no parts of sliding windows cost less
    in DuckDB, which reads texts in dictionaries.)
    """
    states = [states_of(measure) for measure in aggregate.measures]
    arguments = [one for measure in aggregate.measures for one in measure.arguments if not isinstance(one, str)]
    numbers = all(isinstance(typed.type, t.Integer) for typed in (aggregate.keys[0], *arguments))
    numbers = numbers and all(isinstance(key.type, key_types) for key in aggregate.keys)
    if not numbers or not all(own and {state.function for state in own} <= _IN_ARRAYS for own in states):
        return None
    mark, *others = aggregate.keys
    sliced = sliced_column(mark)
    conditions = [measure.condition for measure in aggregate.measures if measure.condition is not None]
    if sliced is not None and all(map(is_column, (*others, *arguments, *conditions))):
        below = _without_nulls(aggregate.input, sliced.column)
        if isinstance(below, ir.Read | ir.LocalFiles):
            return _dense(aggregate, below, aggregate.keys, aggregate.measures)
    columns: list[ir.Expression] = [mark if sliced is None else sliced.column, *others]
    measures = [_over_columns(measure, columns) for measure in aggregate.measures]
    first, *keys = (ir.Field(index=at, type=columns[at].type) for at in range(len(aggregate.keys)))
    if isinstance(mark, ir.Call) and sliced is not None:
        mark = replace(mark, arguments=(first, *mark.arguments[1:]))
    else:
        mark = first
    return _dense(aggregate, project(aggregate.input, columns, aggregate.plan_path), (mark, *keys), measures)


def _dense(
    aggregate: ir.PartialAggregate | ir.Aggregate,
    below: ir.Relation,
    keys: Sequence[ir.Expression],
    measures: Sequence[ir.Measure],
) -> ir.DenseSlices:
    return ir.DenseSlices(
        input=below,
        keys=tuple(keys),
        measures=tuple(measures),
        whole=isinstance(aggregate, ir.Aggregate),
        schema=aggregate.schema,
        plan_path=aggregate.plan_path,
    )


def _without_nulls(relation: ir.Relation, time: ir.Field) -> ir.Relation:
    """The rows, without a filter that leaves out nothing but those without a time."""
    if not isinstance(relation, ir.Filter):
        return relation
    match relation.condition:
        case ir.Call(function=ir.Function(name="is_not_null"), arguments=(ir.Field() as tested,)):
            return relation.input if _is_same(tested, time) else relation
        case _:
            return relation


def _over_columns(measure: ir.Measure, columns: list[ir.Expression]) -> ir.Measure:
    """The measure over columns of a projection, to which it adds what it reads."""

    def column(expression: ir.Expression) -> ir.Field:
        same = (at for at, known in enumerate(columns) if _is_same(known, expression))
        at = next(same, len(columns))
        if at == len(columns):
            columns.append(expression)
        return ir.Field(index=at, type=expression.type)

    arguments = tuple(one if isinstance(one, str) else column(one) for one in measure.arguments)
    condition = None if measure.condition is None else column(measure.condition)
    return replace(measure, arguments=arguments, condition=condition)


def _is_same(one: ir.Expression, other: ir.Expression) -> bool:
    return one is other or (is_column(one) and is_column(other) and one.index == other.index)


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

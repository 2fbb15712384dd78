"""Aggregates on changes: running numbers if a function has them, else the touched groups computed again.

Counts, exact sums and least and greatest values follow the change. Values made from these (averages of decimals, say)
are computed from them, by the function's own template over its states. All others are computed from all rows of the
touched groups, sums of floats included, because a sum of floats depends on the order of its additions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import pyarrow as pa

from ...operators.changes.event_time.window_closing import SlicedClosing
from ...operators.changes.group import Count, Extreme, GroupMeasure, Sum
from ...operators.slices.state_joins import StateFunction
from .. import ir
from ..analysis.structure import Structure
from ..ir import types as t
from ..ir.arrow_types import arrow_schema, sql_type
from ..ir.building import columns, project
from ..sql.states import State, render_total, states_of
from .change_nodes import ChangeNode, ComputeNode, GroupNode, RegroupNode, SelectNode
from .rendering import NUMBER, leaf, numbered, render
from .rowwise import compute
from .sets import distinct

_EXTREMES: Final = {"min": False, "max": True, "any_value": False, "bool_and": False, "bool_or": True}
"""The functions that keep an extreme, each with whether it keeps the greatest. For any value the least is as good as
another, and the least does not depend on the order of arrival.
"""


def lower_aggregate(relation: ir.Aggregate, node: ChangeNode) -> ChangeNode:
    if len(relation.grouping_sets) == 1 or not relation.grouping_sets:
        return _one_set(relation, node)
    schema = arrow_schema(relation.schema)
    sets = tuple(_numbered_set(relation, node, number, schema) for number in range(len(relation.grouping_sets)))
    return SelectNode(inputs=sets, columns=tuple(range(len(schema))), schema=schema, plan_path=relation.plan_path)


def _numbered_set(relation: ir.Aggregate, node: ChangeNode, number: int, schema: pa.Schema) -> ChangeNode:
    """The groups of one of several sets. Keys of other sets are null, and the set's number is the last column. The
    number is computed before there are columns of other keys: a statement of all columns for each of many sets would
    be slow to prepare.
    """
    used, own = relation.grouping_sets[number], relation.schema[:-1]
    groups, narrow = _narrow(replace(relation, grouping_sets=(used,), schema=own), used, node)
    value = ir.Literal(value=number, type=relation.schema[-1])
    numbered = compute(groups, narrow, (*columns(narrow), value), relation.plan_path)
    return _widened(relation, used, numbered, schema)


def _one_set(relation: ir.Aggregate, node: ChangeNode) -> ChangeNode:
    """The groups by the keys of the set. The columns of other keys are null."""
    used = relation.grouping_sets[0] if relation.grouping_sets else ()
    groups, _ = _narrow(relation, used, node)
    if used == tuple(range(len(relation.keys))):
        return groups
    return _widened(relation, used, groups, arrow_schema(relation.schema))


def _narrow(relation: ir.Aggregate, used: Sequence[int], node: ChangeNode) -> tuple[ChangeNode, ir.Schema]:
    """The groups by these keys, without the columns of other keys, and the types of their columns."""
    schema = (*(relation.schema[at] for at in used), *relation.schema[len(relation.keys) :])
    return _groups(relation, tuple(relation.keys[at] for at in used), schema, node), schema


def _widened(relation: ir.Aggregate, used: Sequence[int], groups: ChangeNode, schema: pa.Schema) -> ChangeNode:
    """The groups with a column for each key of the relation, which is null for the keys that are not used."""
    positions = {key: at for at, key in enumerate(used)}
    own = range(len(used), len(used) + len(schema) - len(relation.keys))
    wanted = (*(positions.get(at) for at in range(len(relation.keys))), *own)
    return SelectNode(inputs=(groups,), columns=wanted, schema=schema, plan_path=relation.plan_path)


def _groups(relation: ir.Aggregate, keys: tuple[ir.Expression, ...], schema: ir.Schema, node: ChangeNode) -> ChangeNode:
    if keys and not relation.measures:
        return distinct(compute(node, relation.input.schema, keys, relation.plan_path), plan_path=relation.plan_path)
    running = [_running(measure) for measure in relation.measures]
    if any(aggregate is None for aggregate in running):
        return _again(relation, keys, schema, node)
    return _kept_running(relation, keys, schema, node, [aggregate for aggregate in running if aggregate is not None])


# -------------------------------------------------------------------------------------------------------- running


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A measure's states. `plain` says that the only state is the measure itself. A measure of `distinct` values runs
    over rows of the different values alone.
    """

    measure: ir.Measure
    states: tuple[State, ...]
    plain: bool
    distinct: bool


def _running(measure: ir.Measure) -> _Running | None:
    """The running form of a measure; None if numbers cannot keep the measure up to date."""
    distinct = measure.distinct and bool(measure.arguments)
    measure = replace(measure, distinct=measure.distinct and not distinct)
    states = states_of(measure)
    if states is None or not all(_is_running(state, measure) for state in states):
        return None
    return _Running(measure=measure, states=tuple(states), plain=_is_plain(measure, states), distinct=distinct)


def _is_running(state: State, measure: ir.Measure) -> bool:
    if state.function == "sum":
        return not isinstance(_argument(measure).type, t.Float)
    return state.function == "count" or state.function in _EXTREMES


def _is_plain(measure: ir.Measure, states: Sequence[State]) -> bool:
    """Tests whether the state has the measure's value, type and errors."""
    if len(states) != 1:
        return False
    match states[0].function, t.required(measure.type):
        case "count", t.Integer(bits=64, signed=True):
            return measure.function.name == "count"
        case "sum", t.Integer(bits=64, signed=True):
            return measure.function.name == "sum"
        case "sum", t.Decimal(precision=38):
            return measure.function.name == "sum"
        case function, _:
            return function in _EXTREMES


def _argument(measure: ir.Measure) -> ir.Expression:
    return next(argument for argument in reversed(measure.arguments) if not isinstance(argument, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The states of measures by slice and keys. They were made by `functions`. If they are `plain`, each is its
    measure.
    """

    groups: GroupNode
    functions: tuple[StateFunction, ...]
    plain: bool


def slices_of(relation: ir.Aggregate, node: ChangeNode, closing: SlicedClosing, slice_sql: str | None) -> Slices | None:
    """The states of an aggregate's measures by its keys, the first of which is a slice of final windows. None if
    windows cannot be put together, exactly, from numbers of their slices.
    """
    running = [_running(measure) for measure in relation.measures]
    kept = [aggregate for aggregate in running if aggregate is not None and not aggregate.distinct]
    states = [state for aggregate in kept for state in aggregate.states]
    if len(kept) < len(running) or any(state.function == "any_value" for state in states):
        return None
    return Slices(
        groups=replace(
            _states(relation, relation.keys, relation.schema, node, kept), closing=closing, slice_sql=slice_sql
        ),
        functions=cast("tuple[StateFunction, ...]", tuple(state.function for state in states)),
        plain=all(aggregate.plain for aggregate in kept),
    )


def _kept_running(
    relation: ir.Aggregate,
    keys: tuple[ir.Expression, ...],
    schema: ir.Schema,
    node: ChangeNode,
    running: Sequence[_Running],
) -> ChangeNode:
    """A group operator over the keys and arguments, and above it, if needed, the values from their states."""
    groups = _states(relation, keys, schema, node, running)
    if all(aggregate.plain for aggregate in running):
        return groups
    return ComputeNode(
        input=groups,
        sql=_totals(len(keys), running),
        schema=arrow_schema(schema),
        plan_path=relation.plan_path,
    )


def _states(
    relation: ir.Aggregate,
    keys: tuple[ir.Expression, ...],
    schema: ir.Schema,
    node: ChangeNode,
    running: Sequence[_Running],
) -> GroupNode:
    """The group operator over the keys and arguments."""
    arguments = _Arguments(len(keys))
    measures: list[GroupMeasure] = []
    types: list[t.Type] = list(schema[: len(keys)])
    several = any(aggregate.distinct for aggregate in running)
    for aggregate in running:
        for state in aggregate.states:
            measures.append(_measure(aggregate, state, arguments, counted=several))
            types.append(t.nullable(aggregate.measure.type) if aggregate.plain else state.type)
    computed = arguments.computed(relation, keys, node)
    return GroupNode(
        input=computed,
        key=tuple(range(len(keys))),
        measures=tuple(measures),
        schema=arrow_schema(tuple(types)),
        plan_path=relation.plan_path,
        always=not keys,
    )


class _Arguments:
    """The columns behind the keys' columns. Columns of distinct values come from rows of their own, each value once, in
    which the other columns are null: every measure ignores nulls, and every key has rows of each kind.
    """

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._values: list[tuple[ir.Expression, int | None]] = []
        self._kinds = Structure()

    def add(self, argument: ir.Expression, *, distinct: bool) -> int:
        """Adds an argument and gives its column's number."""
        self._values.append((argument, self._kinds.number(argument) if distinct else None))
        return self._keys + len(self._values) - 1

    def computed(self, relation: ir.Aggregate, keys: tuple[ir.Expression, ...], node: ChangeNode) -> ChangeNode:
        kinds = dict.fromkeys(kind for _, kind in self._values) or {None: None}
        branches = [self._of_kind(kind, relation, keys, node) for kind in kinds]
        if len(branches) == 1:
            return branches[0]
        schema = branches[0].schema
        return SelectNode(
            inputs=tuple(branches), columns=tuple(range(len(schema))), schema=schema, plan_path=relation.plan_path
        )

    def _of_kind(
        self, kind: int | None, relation: ir.Aggregate, keys: tuple[ir.Expression, ...], node: ChangeNode
    ) -> ChangeNode:
        values = [
            value if kind == own else ir.Literal(value=None, type=t.nullable(value.type)) for value, own in self._values
        ]
        computed = compute(node, relation.input.schema, (*keys, *values), relation.plan_path)
        return computed if kind is None else distinct(computed, plan_path=relation.plan_path)


def _measure(running: _Running, state: State, arguments: _Arguments, *, counted: bool) -> GroupMeasure:
    """The measure of a state, over an argument that is null if the measure does not want the row. A count of rows is
    `counted` by a column too if the rows are not the input's alone.
    """
    measure = running.measure
    values = [value for value in measure.arguments if not isinstance(value, str)]
    if not values and measure.condition is None and not counted:
        return Count()
    argument = values[-1] if values else ir.Literal(value=True, type=t.Boolean())
    if measure.condition is not None:
        wanted = ((measure.condition, argument),)
        argument = ir.IfThen(clauses=wanted, otherwise=None, type=t.nullable(argument.type))
    column = arguments.add(argument, distinct=running.distinct)
    match state.function:
        case "count":
            return Count(column)
        case "sum":
            return Sum(column)
        case function:
            return Extreme(column, greatest=_EXTREMES[function])


def _totals(keys: int, running: Sequence[_Running]) -> str:
    """The SQL of each group by itself, its values put together from its states."""
    selected = [f"any_value(c{at})" for at in range(keys)]
    at = keys
    for aggregate in running:
        names = [f"c{at + number}" for number in range(len(aggregate.states))]
        selected.append(f"CAST({render_total(aggregate.measure, names)} AS {sql_type(aggregate.measure.type)})")
        at += len(aggregate.states)
    return f"SELECT {', '.join((*selected, f'c{at}'))} FROM in0 GROUP BY c{at}"


# ---------------------------------------------------------------------------------------------------------- again


def _again(relation: ir.Aggregate, keys: tuple[ir.Expression, ...], schema: ir.Schema, node: ChangeNode) -> ChangeNode:
    """The touched groups computed again. Keys are computed behind the row's columns, the measures over all rows of the
    touched groups.
    """
    below = relation.input.schema
    wide = compute(node, below, (*columns(below), *keys), relation.plan_path)
    types = (*below, *(key.type for key in keys))
    base = numbered(types, relation.plan_path)
    number = ir.Field(index=len(types), type=NUMBER)
    answers = (NUMBER, *schema[len(keys) :])
    groups = ir.Aggregate(
        input=base,
        keys=(number,),
        grouping_sets=((0,),),
        measures=relation.measures,
        schema=answers,
        plan_path=relation.plan_path,
    )
    fields = columns(answers)
    return RegroupNode(
        input=wide,
        key=tuple(range(len(below), len(types))),
        sql=render(project(groups, (*fields[1:], fields[0])), [base]),
        nothing=None if keys else _nothing(relation, types),
        schema=arrow_schema(schema),
        plan_path=relation.plan_path,
    )


def _nothing(relation: ir.Aggregate, types: ir.Schema) -> str:
    """The SQL of the row for no rows, of the only group."""
    base = leaf((*types, NUMBER), relation.plan_path)
    measures = tuple(measure.type for measure in relation.measures)
    groups = ir.Aggregate(
        input=base,
        keys=(),
        grouping_sets=((),),
        measures=relation.measures,
        schema=measures,
        plan_path=relation.plan_path,
    )
    first = ir.Literal(value=0, type=NUMBER)
    return render(project(groups, (*columns(measures), first)), [base])

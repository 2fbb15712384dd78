"""The physical node of windows that are put together from slices: the operator's arguments and statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never, cast

import pyarrow as pa

from ...operators.duckdb.long_values import LongColumn
from ...operators.slices.dense_slices import GroupsOfSlices, WholeGroups
from ...operators.slices.group_positions import GroupKey
from ...operators.slices.group_totals import GroupFunction, GroupState
from ...operators.slices.sliding_windows import WindowsOfSlices
from ...operators.slices.state_joins import StateFunction
from ...proto.errors import InternalError, PlanError
from .. import ir
from ..analysis.sliced_columns import sliced_column
from ..ir import types as t
from ..ir.arrow_types import arrow_schema, sql_type
from ..physical.pipelines import PhysicalNode
from ..physical.slice_nodes import DenseSlicesNode, DenseWindowsNode, SliceNode, SlidingWindowsNode
from ..sql.relations.aggregate import select_aggregate
from ..sql.relations.final_aggregate import select_final_aggregate
from ..sql.relations.partial_aggregate import select_partial_aggregate
from ..sql.relations.sliding_aggregate import select_final_sliding_aggregate
from ..sql.sql_scope import TextScope
from ..sql.states import render_value, states_of
from ..sql.table import Direct, Table, numbered
from ..sql.writer import Writer

_OfSlices: TypeAlias = ir.SlidingWindows | ir.DenseSlices | ir.FinalDenseSlices


def node_of_slices(relation: _OfSlices, input_: PhysicalNode) -> SliceNode:
    match relation:
        case ir.SlidingWindows():
            return _sliding_windows(relation, input_)
        case ir.DenseSlices():
            return _dense_slices(relation, input_)
        case ir.FinalDenseSlices():
            return _final_dense_slices(relation, input_)
        case _:
            assert_never(relation)


def _sliding_windows(relation: ir.SlidingWindows, input_: PhysicalNode) -> SlidingWindowsNode | DenseWindowsNode:
    """The node of windows. If the groups of slices are on the same channel, one operator makes both."""
    schema = arrow_schema(relation.schema)
    functions = tuple(state.function for measure in relation.measures for state in states_of(measure) or ())
    texts = (at for at in range(1, 1 + relation.keys) if _is_text(schema.field(at).type))
    try:
        windows = WindowsOfSlices(
            length=relation.length,
            step=relation.step,
            keys=relation.keys,
            functions=cast("tuple[StateFunction, ...]", functions),
            values=_values(relation, 1 + relation.keys),
            plain=_is_plain(relation),
            windows=_windows(relation),
            long={at: LongColumn(compared=True, kept=True) for at in texts},
        )
    except PlanError as error:
        raise error.at(relation.plan_path) from error
    if isinstance(input_, DenseSlicesNode):
        return DenseWindowsNode(
            input=input_.input,
            groups=input_.groups,
            states=input_.schema,
            windows=windows,
            schema=schema,
            size_class=input_.size_class,
            plan_path=relation.plan_path,
        )
    return SlidingWindowsNode(
        input=input_, windows=windows, schema=schema, size_class=input_.size_class, plan_path=relation.plan_path
    )


def _dense_slices(relation: ir.DenseSlices, input_: PhysicalNode) -> DenseSlicesNode:
    try:
        groups = GroupsOfSlices(
            keys=tuple(map(_group_key, relation.keys)),
            states=tuple(_group_states(relation.measures)),
            groups=_groups(relation),
            whole=_whole(relation) if relation.whole else None,
        )
    except PlanError as error:
        raise error.at(relation.plan_path) from error
    return _node_of_groups(relation, groups, input_)


def _node_of_groups(
    relation: ir.DenseSlices | ir.FinalDenseSlices, groups: GroupsOfSlices, input_: PhysicalNode
) -> DenseSlicesNode:
    return DenseSlicesNode(
        input=input_,
        groups=groups,
        schema=arrow_schema(relation.schema),
        size_class=input_.size_class,
        plan_path=relation.plan_path,
    )


def _final_dense_slices(relation: ir.FinalDenseSlices, input_: PhysicalNode) -> DenseSlicesNode:
    """The groups of all channels' parts, whose states are values like any others."""
    keys, schema = relation.keys, relation.input.schema
    try:
        total = select_final_aggregate(relation, _input(len(schema))[0])
        whole = WholeGroups(
            states=arrow_schema(schema),
            aggregate=total,
            ordered=_in_order(total, keys),
            total=_in_order(total, keys),
            values=None if _is_plain(relation) else _values(relation, keys),
        )
    except PlanError as error:
        raise error.at(relation.plan_path) from error
    groups = GroupsOfSlices(
        keys=tuple(GroupKey(column=at) for at in range(keys)),
        states=tuple(_joined_states(relation.measures, keys)),
        groups=f"SELECT {', '.join(f'c{at}' for at in range(len(schema)))} FROM in0",
        whole=whole,
    )
    return _node_of_groups(relation, groups, input_)


def _joined_states(measures: Sequence[ir.Measure], first: int) -> Iterator[GroupState]:
    """The states of groups from those of their parts, whose columns begin with the `first` one."""
    states = (state for measure in measures for state in states_of(measure) or ())
    for at, state in enumerate(states, first):
        function = "sum" if state.function == "count" else state.function
        yield GroupState(function=cast("GroupFunction", function), values=at, condition=None)


def _group_key(key: ir.Expression) -> GroupKey:
    if isinstance(key, ir.Field):
        return GroupKey(column=key.index, numbered=not isinstance(key.type, t.Integer))
    sliced = sliced_column(key)
    if sliced is None:
        raise InternalError("a key of dense slices is neither a column nor the slices of one")
    return GroupKey(column=sliced.column.index, size=sliced.size, origin=sliced.origin)


def _group_states(measures: Sequence[ir.Measure]) -> Iterator[GroupState]:
    """The states of measures over columns. A state reads the measure's only argument, if it has one."""
    for measure in measures:
        columns = [argument.index for argument in measure.arguments if isinstance(argument, ir.Field)]
        condition = measure.condition.index if isinstance(measure.condition, ir.Field) else None
        for state in states_of(measure) or ():
            function = cast("GroupFunction", state.function)
            yield GroupState(function=function, values=columns[-1] if columns else None, condition=condition)


def _groups(relation: ir.DenseSlices) -> str:
    table, writer = _input(len(relation.input.schema))
    return select_partial_aggregate(_in_parts(relation), table, writer.over(table))


def _in_parts(relation: ir.DenseSlices) -> ir.PartialAggregate:
    keys = len(relation.keys)
    states = (state.type for measure in relation.measures for state in states_of(measure) or ())
    return ir.PartialAggregate(
        input=relation.input,
        keys=relation.keys,
        measures=relation.measures,
        schema=(*relation.schema[:keys], *states),
        plan_path=relation.plan_path,
    )


def _whole(relation: ir.DenseSlices) -> WholeGroups:
    keys = len(relation.keys)
    table, writer = _input(len(relation.input.schema))
    aggregate = ir.Aggregate(
        input=relation.input,
        keys=relation.keys,
        grouping_sets=(tuple(range(keys)),),
        measures=relation.measures,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )
    parts = _in_parts(relation)
    total = ir.FinalAggregate(
        input=parts, keys=keys, measures=relation.measures, schema=relation.schema, plan_path=relation.plan_path
    )
    rows = select_aggregate(aggregate, table, writer.over(table))
    return WholeGroups(
        states=arrow_schema(parts.schema),
        aggregate=rows,
        ordered=_in_order(rows, keys),
        total=_in_order(select_final_aggregate(total, _input(len(parts.schema))[0]), keys),
        values=None if _is_plain(relation) else _values(relation, keys),
    )


def _in_order(groups: str, keys: int) -> str:
    """The groups in the order in which arrays have them. All keys of whole groups are integers."""
    return f"SELECT * FROM ({groups}) ORDER BY {', '.join(f'{at} NULLS FIRST' for at in range(1, keys + 1))}"


def _input(width: int) -> tuple[Table, Writer]:
    """The relation `in0` with columns c0, c1, ..., and a writer over it."""
    names = tuple(f"c{at}" for at in range(width))
    writer = Writer(scope=TextScope(rows=(names,), clock=_no_clock))
    return numbered(writer.aliases, f"SELECT {', '.join(names)} FROM in0", width, Direct("in0", names)), writer


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _values(relation: _OfSlices, keys: int) -> str:
    return f"SELECT {', '.join(_columns(relation, keys))} FROM in0"


def _columns(relation: _OfSlices, keys: int) -> Iterator[str]:
    yield from (f"c{at}" for at in range(keys))
    state = keys
    for measure in relation.measures:
        end = state + len(states_of(measure) or ())
        value = render_value(measure, [f"c{at}" for at in range(state, end)])
        yield f"CAST({value} AS {sql_type(measure.type)})"
        state = end


def _is_plain(relation: _OfSlices) -> bool:
    """Tests whether each measure is its state, cast to the measure's type."""
    for measure in relation.measures:
        states = states_of(measure) or ()
        if len(states) != 1:
            return False
        own = states[0].own.format("state")
        if render_value(measure, ["state"]) not in (own, f"CAST({own} AS {sql_type(measure.type)})"):
            return False
    return True


def _windows(relation: ir.SlidingWindows) -> str:
    table, writer = _input(len(relation.input.schema))
    return select_final_sliding_aggregate(relation, table, writer)


def _no_clock(variable: ir.Clock) -> str:
    raise InternalError(f"windows of slices do not read {variable.value}")

"""The physical node of windows that are put together from slices: the operator's arguments and statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from ...operators.duckdb.long_values import LongColumn
from ...operators.slices.sliding_windows import WindowsOfSlices
from ...operators.slices.state_joins import StateFunction
from ...proto.errors import InternalError, PlanError
from .. import ir
from ..ir.arrow_types import arrow_schema, sql_type
from ..physical.pipelines import PhysicalNode
from ..physical.slice_nodes import SlidingWindowsNode
from ..sql.relations.sliding_aggregate import select_final_sliding_aggregate
from ..sql.sql_scope import TextScope
from ..sql.states import render_value, states_of
from ..sql.table import Direct, numbered
from ..sql.writer import Writer


def sliding_windows_node(relation: ir.SlidingWindows, input_: PhysicalNode) -> SlidingWindowsNode:
    schema = arrow_schema(relation.schema)
    functions = tuple(state.function for measure in relation.measures for state in states_of(measure) or ())
    texts = (at for at in range(1, 1 + relation.keys) if _is_text(schema.field(at).type))
    try:
        windows = WindowsOfSlices(
            length=relation.length,
            step=relation.step,
            keys=relation.keys,
            functions=cast("tuple[StateFunction, ...]", functions),
            values=_values(relation),
            windows=_windows(relation),
            long={at: LongColumn(compared=True, kept=True) for at in texts},
        )
    except PlanError as error:
        raise error.at(relation.plan_path) from error
    return SlidingWindowsNode(
        input=input_, windows=windows, schema=schema, size_class=input_.size_class, plan_path=relation.plan_path
    )


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _values(relation: ir.SlidingWindows) -> str:
    return f"SELECT {', '.join(_columns(relation))} FROM in0"


def _columns(relation: ir.SlidingWindows) -> Iterator[str]:
    yield from (f"c{at}" for at in range(1 + relation.keys))
    state = 1 + relation.keys
    for measure in relation.measures:
        end = state + len(states_of(measure) or ())
        value = render_value(measure, [f"c{at}" for at in range(state, end)])
        yield f"CAST({value} AS {sql_type(measure.type)})"
        state = end


def _windows(relation: ir.SlidingWindows) -> str:
    names = tuple(f"c{at}" for at in range(len(relation.input.schema)))
    writer = Writer(scope=TextScope(rows=(names,), clock=_no_clock))
    table = numbered(writer.aliases, f"SELECT {', '.join(names)} FROM in0", len(names), Direct("in0", names))
    return select_final_sliding_aggregate(relation, table, writer)


def _no_clock(variable: ir.Clock) -> str:
    raise InternalError(f"windows of slices do not read {variable.value}")

"""The least that can run a physical plan: each fragment's SQL in a DuckDB of its own, inputs as the contract says.

A stream that a statement asks for more often than it was announced fails the run.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tidegate.executor.changes.build_loops import loop_of
from tidegate.operators.core.key_rows import Holding
from tidegate.operators.core.operator import Operator
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.canonical_order import in_canonical_order
from tidegate.operators.duckdb.conform import Conform
from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.instances import Instance, InstanceSettings
from tidegate.operators.duckdb.statement_functions import StatementFunctions
from tidegate.operators.merge_join import MergeJoin
from tidegate.operators.select import Select
from tidegate.operators.slices.dense_slices import DenseSlices
from tidegate.operators.slices.dense_windows import DenseWindows
from tidegate.operators.slices.sliding_windows import SlidingWindows
from tidegate.operators.streaming_aggregate import StreamingAggregate
from tidegate.planner import ir
from tidegate.planner.physical.merge_nodes import MergeJoinNode, StreamingAggregateNode
from tidegate.planner.physical.pipelines import (
    Feed,
    FragmentNode,
    KeptNode,
    PhysicalNode,
    PhysicalPlan,
    RoundsNode,
    ScanNode,
    SelectNode,
    Shape,
    SourceShape,
)
from tidegate.planner.physical.slice_nodes import DenseSlicesNode, DenseWindowsNode, SlidingWindowsNode
from tidegate.planner.prepare import Prepared, prepare
from tidegate.proto.arrow.spill_buffer import SpillRoom
from tidegate.proto.values import TaskOptions

CLOCKS = {
    ir.Clock.TIMESTAMP: pa.scalar(dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
    ir.Clock.DATE: pa.scalar(dt.date(2024, 2, 29), pa.date32()),
    ir.Clock.TIMEZONE: pa.scalar("UTC", pa.string()),
}


@dataclass(frozen=True)
class Form:
    """The statement of a fragment that runs, DuckDB's optimizers that are off, the rows of a batch, and the number of
    channels on which loops go round by round.
    """

    ordered: bool = False
    without: str = ""
    batch: int | None = None
    channels: int = 1

    def cut(self, table: pa.Table) -> pa.Table:
        if self.batch is None:
            return table
        parts = [table.slice(at, self.batch).combine_chunks() for at in range(0, table.num_rows, self.batch)]
        batches = [batch for part in parts for batch in part.to_batches()]
        return pa.Table.from_batches(batches, table.schema) if parts else table


PLAIN = Form()


def shape_of(prepared: Prepared, tables: Mapping[str, pa.Table], feed: Feed = Feed.FILES) -> Shape:
    return {
        source.name: SourceShape(feed=feed, size_class=len(str(tables[source.name].num_rows)))
        for source in prepared.sources
    }


def run_plan(
    plan: ir.Plan, tables: Mapping[str, pa.Table], *, static: Sequence[str] = (), feed: Feed = Feed.FILES
) -> pa.Table:
    """The plan's answer over these tables."""
    return run_prepared(prepare(plan, TaskOptions(), static), tables, feed)


def run_prepared(prepared: Prepared, tables: Mapping[str, pa.Table], feed: Feed = Feed.FILES) -> pa.Table:
    return run(prepared.physical(shape_of(prepared, tables, feed)), tables)


def rows(plan: ir.Plan, tables: Mapping[str, pa.Table], **how: Any) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in run_plan(plan, tables, **how).columns), strict=True))


def run(physical: PhysicalPlan, tables: Mapping[str, pa.Table], form: Form = PLAIN) -> pa.Table:
    kept: dict[str, pa.Table] = {}
    for kept_table in physical.kept:
        kept[kept_table.name] = _run(kept_table.root, tables, kept, form)
    results = [_run(pipeline.root, tables, kept, form) for pipeline in physical.pipelines]
    return pa.Table.from_batches([batch for result in results for batch in result.to_batches()], results[0].schema)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all runs; what a run registers is its own cursor's."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def _without(optimizers: str) -> None:
    """Turn these optimizers off, if others are: it holds for the whole database until the next time."""
    if _optimizers_off != [optimizers]:
        _database().execute(f"SET GLOBAL disabled_optimizers = '{optimizers}'")
        _optimizers_off[:] = [optimizers]


_optimizers_off: list[str] = []


class _Once:
    """A stream that may be asked for once."""

    def __init__(self, table: pa.Table, name: str) -> None:
        self._table = table
        self._name = name
        self._asked = False

    def __arrow_c_schema__(self) -> object:
        return self._table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert not self._asked, f"{self._name} was read twice"
        self._asked = True
        return self._table.__arrow_c_stream__()


def _run(node: PhysicalNode, tables: Mapping[str, pa.Table], kept: Mapping[str, pa.Table], form: Form) -> pa.Table:
    match node:
        case KeptNode():
            return kept[node.name]
        case ScanNode():
            return _typed(tables[node.source].select([column.name for column in node.columns]), node.schema)
        case FragmentNode():
            return _run_fragment(node, tables, kept, form)
        case MergeJoinNode():
            inputs = [_run(side, tables, kept, form) for side in (node.left, node.right)]
            return _run_operator(_merge_join(node), inputs)
        case SelectNode():
            select = Select(node.input.schema, columns=node.columns, schema=node.schema, plan_path=node.plan_path)
            return _run_operator(select, [_run(node.input, tables, kept, form)])
        case RoundsNode():
            inputs = [_run(child, tables, kept, form) for child in node.inputs]
            return _run_operator(loop_of(node, _instance(), form.channels), inputs)
        case StreamingAggregateNode():
            return _run_operator(_streaming_aggregate(node), [_run(node.input, tables, kept, form)])
        case SlidingWindowsNode():
            return _run_operator(_sliding_windows(node), [_run(node.input, tables, kept, form)])
        case DenseSlicesNode():
            return _run_operator(_dense_slices(node), [_run(node.input, tables, kept, form)])
        case DenseWindowsNode():
            return _run_operator(_dense_windows(node), [_run(node.input, tables, kept, form)])
        case _:
            raise NotImplementedError(type(node))


@cache
def _instance() -> Instance:
    return Instance(InstanceSettings(memory_limit=1 << 30), tempfile.mkdtemp())


def _merge_join(node: MergeJoinNode) -> Operator:
    return MergeJoin(
        left=node.left.schema,
        right=node.right.schema,
        keys=node.keys,
        type=node.type,
        schema=node.schema,
        holding=Holding(memory_limit=1 << 20, folder=Path(tempfile.gettempdir())),
        condition=node.condition,
        instance=_instance(),
        plan_path=node.plan_path,
    )


def _streaming_aggregate(node: StreamingAggregateNode) -> Operator:
    return StreamingAggregate(
        node.input.schema,
        keys=node.keys,
        measures=node.measures,
        schema=node.schema,
        instance=_instance(),
        order=node.order,
        plan_path=node.plan_path,
    )


def _sliding_windows(node: SlidingWindowsNode) -> Operator:
    return SlidingWindows(
        node.input.schema,
        windows=node.windows,
        schema=node.schema,
        size_class=node.size_class,
        instance=_instance(),
        plan_path=node.plan_path,
    )


def _dense_slices(node: DenseSlicesNode) -> Operator:
    return DenseSlices(
        node.input.schema,
        groups=node.groups,
        schema=node.schema,
        size_class=node.size_class,
        instance=_instance(),
        plan_path=node.plan_path,
    )


def _dense_windows(node: DenseWindowsNode) -> Operator:
    return DenseWindows(
        node.input.schema,
        groups=node.groups,
        states=node.states,
        windows=node.windows,
        schema=node.schema,
        size_class=node.size_class,
        instance=_instance(),
        plan_path=node.plan_path,
    )


def _run_operator(operator: Operator, inputs: Sequence[pa.Table]) -> pa.Table:
    streams = [BatchStream(table.schema, table.to_batches()) for table in inputs]
    result = pa.Table.from_batches(operator.run(streams), operator.schema)
    operator.close()
    return result


def _run_fragment(
    node: FragmentNode, tables: Mapping[str, pa.Table], kept: Mapping[str, pa.Table], form: Form
) -> pa.Table:
    definitions = []
    with _database().cursor() as connection:
        for stream in node.streams:
            stream_table = form.cut(_positional(_run(stream.node, tables, kept, form)))
            if stream.replayed:
                connection.register(f"{stream.relation} stream", _Once(stream_table, stream.relation))
                definitions.append(f'{stream.relation} AS MATERIALIZED (SELECT * FROM "{stream.relation} stream")')
            else:
                connection.register(stream.relation, _Once(stream_table, stream.relation))
        for file in node.files:
            stream_table = form.cut(tables[file.source].select([column.name for column in file.columns]))
            typed = _positional(
                _typed(stream_table, pa.schema([(column.name, column.type) for column in file.columns]))
            )
            connection.register(f"{file.relation} file", typed)
            names = ", ".join(typed.column_names)
            definitions.append(f'{file.relation}({names}) AS NOT MATERIALIZED (SELECT * FROM "{file.relation} file")')
        if node.context:
            clock = {
                f"c{at}": pa.array([CLOCKS[clock].as_py()], CLOCKS[clock].type) for at, clock in enumerate(node.context)
            }
            connection.register("context", _Once(pa.table(clock), "context"))
        sql = node.ordered.sql if form.ordered and node.ordered else node.sql
        assert sql.startswith("SELECT")
        with_ = f"WITH {', '.join(definitions)} " if definitions else ""
        _without(form.without)
        functions = StatementFunctions(sql, connection, memory=1 << 30, threads=1, check=lambda: None)
        with closing(functions):
            statement = functions.named(with_ + sql)
            batches = list(PrivateEngine().stream(connection, statement, ()))  # a relation would be planned twice
        stream_table = pa.Table.from_batches(map(Conform(node.schema, node.plan_path), batches), node.schema)
    if node.result is None:
        return stream_table
    rows = in_canonical_order(stream_table.to_batches(), node.schema, 1 << 30, SpillRoom(tempfile.gettempdir()))
    return pa.Table.from_batches(rows, node.schema)


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Its columns go by position; for a schema without columns it may have one all the same."""
    return table.rename_columns(schema.names).cast(schema) if len(schema) else table.select([])


def _positional(table: pa.Table) -> pa.Table:
    """As SQL reads it: without columns it has one all the same."""
    if not table.num_columns:
        return pa.table({"c0": pa.nulls(table.num_rows, pa.int8())})
    return table.rename_columns([f"c{at}" for at in range(table.num_columns)])

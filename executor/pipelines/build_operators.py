"""Makes operators from the planner's physical nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import pyarrow as pa

from ...operators.as_of_merge_join import AsOfMergeJoin
from ...operators.core.key_rows import Holding
from ...operators.core.operator import Operator, ReadsPieces
from ...operators.core.piece import Piece
from ...operators.core.submit import Submit, at_once
from ...operators.duckdb.fragment import Fragment
from ...operators.duckdb.instances import Instance
from ...operators.duckdb.loop_resources import Later
from ...operators.duckdb.statement_inputs import ContextSource, StreamSource
from ...operators.index_lookup_join import IndexLookupJoin, Retries
from ...operators.indexes import Index, IndexHost, open_index
from ...operators.indexes.sql import Database
from ...operators.kernels import Kernels
from ...operators.loop import Loop
from ...operators.merge_join import MergeJoin
from ...operators.pack_lists import PackLists
from ...operators.select import Select
from ...operators.slices.dense_slices import DenseSlices
from ...operators.slices.dense_windows import DenseWindows
from ...operators.slices.sliding_windows import SlidingWindows
from ...operators.sources.file_relations import FileSource
from ...operators.sources.files_ahead import FilesAhead
from ...operators.sources.scan import Scan
from ...operators.streaming_aggregate import StreamingAggregate
from ...operators.unnest import Unnest
from ...operators.user.batch_function import BatchFunctionOperator
from ...operators.user.iterate import Iterate
from ...operators.user.union import Union
from ...operators.user.user import User
from ...planner.ir import Clock
from ...planner.physical.merge_nodes import AsOfMergeJoinNode, MergeJoinNode, StreamingAggregateNode
from ...planner.physical.pipelines import (
    FileInput,
    FragmentNode,
    LookupNode,
    OperatorNode,
    PackNode,
    PhysicalNode,
    ReceiveNode,
    RoundsNode,
    ScanNode,
    SelectNode,
    UnnestNode,
    inputs,
)
from ...planner.physical.slice_nodes import DenseSlicesNode, DenseWindowsNode, SliceNode, SlidingWindowsNode
from ...planner.physical.user_nodes import BatchFunctionNode, IterateNode, UnionNode, UserNode, UserOperatorNode
from ...proto.values import MissingColumns, Spill
from ..changes.build_loops import loop_of
from ..runtime.batch_store import SpillSpace
from ..runtime.meters import Meter
from .epoch_clock import RELATION, context_schema
from .key_shares import Cut

_HELD_SHARE: Final = 16
"""The rows of one key may take one part in so many of an instance's memory before they go to disk."""

RunNode: TypeAlias = ScanNode | FragmentNode | OperatorNode
"""Nodes that get an operator of their own. The other nodes are streams that already exist."""

Watched: TypeAlias = Callable[[RunNode, int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A wrapper around the rows that a node's operator yields on a channel in an epoch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorFactory:
    """Makes the operators of `channel`.

    - `take`: gives the channel's DuckDB instance, made when the first operator wants it
    - `index`: gives a kept index by its name
    - `tables`, `databases`: what other indexes are opened from
    - `lookup_queue`: gives a queue for an index's look-ups, which bounds how many run at a time
    - `space`: takes what does not fit into memory
    - `meter`: gives an operator's counters by its name and plan path
    - `loop_seconds`: the time within which statements with loops must give their first row; 0 is no bound
    - `later`: makes calls at a later time
    - `channels`: the channels that a loop which runs round by round has of its own
    - `watched`: a wrapper around the rows of each node's operator
    - `memory_limit`: the task's; a row may have as many bytes
    - `missing_columns`: the task's meaning of columns that a table of a database or an iterable lacks
    - `read_ahead`: the room for scans to read files ahead
    """

    take: Callable[[], Instance]
    strict: bool
    spill: Spill
    meter: Callable[[str, str], Meter]
    index: Callable[[str], Index]
    tables: Mapping[str, Sequence[Piece]]
    databases: Mapping[str, Database]
    lookup_queue: Callable[[int], Submit]
    space: SpillSpace
    loop_seconds: float
    later: Later
    channels: int
    watched: Watched
    memory_limit: int
    missing_columns: MissingColumns
    channel: int = 0
    read_ahead: FilesAhead | None = None

    @property
    def instance(self) -> Instance:
        return self.take()


@dataclass(frozen=True, slots=True, eq=False)
class ReadSource:
    """A source that an operator reads itself; a fragment calls it `relation`.

    Of `part`, the operator reads the pieces of the partition with this number.
    """

    name: str
    relation: str | None
    whole: bool
    cut: Cut | None = None
    part: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """An operator, the operators it reads from, and the sources it reads itself (as `reader`, or as `statement`, by
    relations).

    The rows that a `leaf` yields are the rows it has read. `statement` and `loop` are the operator, if it is one.
    """

    node: RunNode
    operator: Operator
    meter: Meter
    inputs: tuple[PhysicalNode, ...]
    sources: tuple[ReadSource, ...] = ()
    clocks: tuple[Clock, ...] = ()
    reader: ReadsPieces | None = None
    leaf: bool = False
    statement: Fragment | None = None
    loop: Loop | None = None


def make(node: RunNode, factory: OperatorFactory) -> Made:
    match node:
        case ScanNode():
            part = factory.channel if node.parted else None
            source = ReadSource(node.source, None, node.whole, _cut(node), part)
            meter = factory.meter("Scan", node.plan_path)
            scan = Scan(
                node.source,
                node.columns,
                order=node.order,
                largest=factory.memory_limit,
                counts=meter,
                read_ahead=factory.read_ahead,
            )
            return Made(node, scan, meter, (), (source,), reader=scan, leaf=True)
        case FragmentNode():
            sources = tuple(map(_file_source, node.files))
            fragment, meter = _fragment(node, factory), factory.meter("Fragment", node.plan_path)
            return Made(node, fragment, meter, inputs(node), sources, node.context, statement=fragment)
        case UnnestNode():
            return Made(node, _unnest(node), factory.meter("Unnest", node.plan_path), inputs(node))
        case PackNode():
            return Made(node, _packing(node, factory), factory.meter("PackLists", node.plan_path), inputs(node))
        case LookupNode():
            return Made(node, _lookup(node, factory), factory.meter("IndexLookupJoin", node.plan_path), inputs(node))
        case MergeJoinNode() | AsOfMergeJoinNode() | StreamingAggregateNode():
            return _of_sorted(node, factory)
        case SlidingWindowsNode() | DenseSlicesNode() | DenseWindowsNode():
            return _of_slices(node, factory)
        case SelectNode():
            select = Select(node.input.schema, columns=node.columns, schema=node.schema, plan_path=node.plan_path)
            return Made(node, select, factory.meter("Select", node.plan_path), inputs(node))
        case RoundsNode():
            loop = loop_of(node, factory.instance, factory.channels)
            return Made(node, loop, factory.meter("Loop", node.plan_path), inputs(node), loop=loop)
        case UserNode() | BatchFunctionNode() | UnionNode() | IterateNode():
            return _of_users(node, factory)
        case _:
            assert_never(node)


def _of_sorted(node: MergeJoinNode | AsOfMergeJoinNode | StreamingAggregateNode, factory: OperatorFactory) -> Made:
    match node:
        case MergeJoinNode():
            return Made(node, _merge_join(node, factory), factory.meter("MergeJoin", node.plan_path), inputs(node))
        case AsOfMergeJoinNode():
            return Made(node, _as_of(node), factory.meter("AsOfMergeJoin", node.plan_path), inputs(node))
        case StreamingAggregateNode():
            aggregate = _streaming_aggregate(node, factory)
            return Made(node, aggregate, factory.meter("StreamingAggregate", node.plan_path), inputs(node))
        case _:
            assert_never(node)


def _of_slices(node: SliceNode, factory: OperatorFactory) -> Made:
    arguments: dict[str, Any] = {
        "schema": node.schema,
        "size_class": node.size_class,
        "instance": factory.instance,
        "plan_path": node.plan_path,
    }
    match node:
        case SlidingWindowsNode():
            windows = SlidingWindows(node.input.schema, windows=node.windows, **arguments)
            return Made(node, windows, factory.meter("SlidingWindows", node.plan_path), inputs(node))
        case DenseSlicesNode():
            slices = DenseSlices(node.input.schema, groups=node.groups, **arguments)
            return Made(node, slices, factory.meter("DenseSlices", node.plan_path), inputs(node))
        case DenseWindowsNode():
            both = DenseWindows(
                node.input.schema, groups=node.groups, states=node.states, windows=node.windows, **arguments
            )
            return Made(node, both, factory.meter("DenseWindows", node.plan_path), inputs(node))
        case _:
            assert_never(node)


def _of_users(node: UserOperatorNode, factory: OperatorFactory) -> Made:
    operator: Operator
    match node:
        case UserNode():
            operator = User(
                node.name,
                node.streams,
                schema=node.schema,
                make=node.make,
                channel=factory.channel,
                recut=factory.strict,
            )
            return Made(node, operator, factory.meter("User", node.plan_path), inputs(node))
        case BatchFunctionNode():
            operator = BatchFunctionOperator(
                node.plan_path,
                node.function,
                schema=node.schema,
                channel=factory.channel,
                stride=node.stride,
                recut=factory.strict,
            )
            return Made(node, operator, factory.meter("BatchFunction", node.plan_path), inputs(node))
        case UnionNode():
            return Made(node, Union(node.schema), factory.meter("Union", node.plan_path), inputs(node))
        case IterateNode():
            source = node.source
            operator = Iterate(
                source.name,
                source.items,
                schema=node.schema,
                epoch_rows=source.epoch_rows,
                channel=factory.channel,
                stride=source.stride,
                missing_columns=factory.missing_columns,
            )
            return Made(node, operator, factory.meter("Iterate", node.plan_path), (), leaf=True)
        case _:
            assert_never(node)


def _fragment(node: FragmentNode, factory: OperatorFactory) -> Fragment:
    return Fragment(
        node.sql,
        schema=node.schema,
        instance=factory.instance,
        streams=streams_of(node),
        files=[
            FileSource(
                source=file.source, relation=file.relation, columns=file.columns, full_cardinality=file.full_cardinality
            )
            for file in node.files
        ],
        context=context_of(node),
        strict=factory.strict,
        ordered=node.ordered,
        spill=factory.spill,
        lazy=node.lazy,
        row_wise=node.row_wise,
        loops=node.loops,
        result=node.result,
        long=node.long,
        loop_seconds=factory.loop_seconds,
        later=factory.later,
        kernels=None if node.kernels is None else Kernels(node.kernels),
        plan_path=node.plan_path,
    )


def streams_of(node: FragmentNode) -> list[StreamSource]:
    """The streams that the fragment's statement reads."""
    return [
        StreamSource(
            relation=stream.relation,
            schema=stream.node.schema,
            size_class=stream.node.size_class,
            replayed=stream.replayed,
            unnamed=stream.unnamed,
            long=stream.long,
            growth=stream.growth,
            rows=stream.node.rows if isinstance(stream.node, ReceiveNode) else None,
        )
        for stream in node.streams
    ]


def context_of(node: FragmentNode) -> ContextSource | None:
    """The clock readings that the fragment's statement reads, if any."""
    return ContextSource(relation=RELATION, schema=context_schema(node.context)) if node.context else None


def _unnest(node: UnnestNode) -> Unnest:
    return Unnest(
        node.input.schema,
        lists=node.lists,
        keep=node.keep,
        schema=node.schema,
        ordinality=node.ordinality,
        outer=node.outer,
        plan_path=node.plan_path,
    )


def _packing(node: PackNode, factory: OperatorFactory) -> PackLists:
    return PackLists(
        node.input.schema,
        length=node.length,
        padding=node.padding,
        window_rows=node.window_rows,
        schema=node.schema,
        memory=factory.instance.settings.memory_limit,
        plan_path=node.plan_path,
    )


def _lookup(node: LookupNode, factory: OperatorFactory) -> IndexLookupJoin:
    index, prefetch, retries, submit = _index(node, factory)
    return IndexLookupJoin(
        schema=node.schema,
        probe=node.input.schema,
        keys=node.keys,
        index=index,
        join=node.join,
        prefetch=prefetch,
        retries=retries,
        submit=submit,
        plan_path=node.plan_path,
    )


def _merge_join(node: MergeJoinNode, factory: OperatorFactory) -> MergeJoin:
    return MergeJoin(
        left=node.left.schema,
        right=node.right.schema,
        keys=node.keys,
        type=node.type,
        schema=node.schema,
        holding=_holding(factory),
        condition=node.condition,
        instance=factory.instance,
        plan_path=node.plan_path,
    )


def _as_of(node: AsOfMergeJoinNode) -> AsOfMergeJoin:
    return AsOfMergeJoin(
        left=node.left.schema,
        right=node.right.schema,
        keys=node.keys,
        ticks=node.ticks,
        outer=node.outer,
        tolerance=node.tolerance,
        schema=node.schema,
        plan_path=node.plan_path,
    )


def _holding(factory: OperatorFactory) -> Holding:
    """The room for the rows of one key."""
    space = factory.space
    return Holding(
        memory_limit=factory.instance.settings.memory_limit // _HELD_SHARE,
        folder=space.files.folder,
        take=space.quota.take,
        give=space.quota.give,
    )


def _streaming_aggregate(node: StreamingAggregateNode, factory: OperatorFactory) -> StreamingAggregate:
    return StreamingAggregate(
        node.input.schema,
        keys=node.keys,
        measures=node.measures,
        schema=node.schema,
        instance=factory.instance,
        order=node.order,
        plan_path=node.plan_path,
    )


def _index(node: LookupNode, factory: OperatorFactory) -> tuple[Index, int, Retries, Submit]:
    """The node's index. A kept index exists already and never waits; any other belongs to this operator."""
    if isinstance(node.index, str):
        return factory.index(node.index), 0, Retries(), at_once
    wanted = node.index
    host = IndexHost(
        tables=factory.tables,
        instance=factory.instance,
        databases=factory.databases,
        missing_columns=factory.missing_columns,
    )
    submit = factory.lookup_queue(wanted.prefetch + 1) if wanted.prefetch else at_once
    return open_index(wanted.kind, wanted.wanted, host), wanted.prefetch, Retries(count=wanted.retries), submit


def _file_source(file: FileInput) -> ReadSource:
    return ReadSource(file.source, file.relation, file.whole, _cut(file))


def _cut(read: FileInput | ScanNode) -> Cut | None:
    return None if read.cut is None else (read.source, read.cut)

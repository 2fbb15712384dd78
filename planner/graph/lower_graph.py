"""Lowers a checked graph to pipelines: groups nodes into pipelines, and places the exchanges.

A node runs in the pipeline of its only reader if that reader has as many channels and takes rows as they are. Every
other node is the root of its own pipeline, which feeds an exchange for each of its readers. So rows that two nodes read
are made once, and wait in exchanges, which spill. A Dataset costs nothing to read again: each reader reads it in its
own pipeline, unless the reader wants the rows dealt in another way than they lie. The same holds for a statement and
files that DuckDB reads as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

import pyarrow as pa

from ...operators.core.column import Column
from ...operators.user.user import UserStream
from ...proto.dataset import Hashed, KeyedDataset
from ...proto.graph import (
    STRIDE,
    Broadcast,
    ByFunction,
    ByKey,
    DatasetSource,
    ExecutorNode,
    FedSource,
    FileSource,
    Graph,
    IterableSource,
    MapNode,
    Spread,
    UnionNode,
)
from ..ir import Routing
from ..physical.pipelines import (
    Exchange,
    Feed,
    FileInput,
    FragmentNode,
    PhysicalNode,
    PhysicalPlan,
    Pipeline,
    ReceiveNode,
    ScanNode,
    Shape,
    Start,
    StreamInput,
    read_from_sources,
    walk,
)
from ..physical.user_nodes import BatchFunctionNode, IterateNode, UserNode
from ..physical.user_nodes import UnionNode as PhysicalUnion
from .edges import Edge, channels_of, edges_of, strides_of
from .steps import MergeStep, OrderedSql, SqlStep, Step, relation

_DEEPEST: Final = 32
"""The most operators on one stack: operators that ask each other for rows share one stack of calls, which has
an end.
"""

_LITTLE_GROWTH: Final = 32
"""The bytes that a statement may make of a byte of narrow rows, of which it gets 2,048 at once."""

_UNKNOWN: Final = 10_000_000
"""The number of rows that statements expect from user code. A statement fetches no result at once that may be
so large.
"""


class Reading(Enum):
    """The part of a source that each channel of its reader reads: of a Dataset, or of files that a statement reads
    itself.
    """

    FILES = "whose files it reads itself"
    SHARE = "a share of it in each channel"
    WHOLE = "all of it in each channel"
    PARTITION = "its partition in each channel"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lowered:
    """A lowered graph.

    | Field | Meaning |
    |---|---|
    | `channels` | The number of channels of each step. |
    | `homes` | The number of each step's pipeline; for a source that several pipelines read, the first one's. |
    | `ends` | The steps that end their pipelines. |
    | `exchanges` | The exchanges of the edges that have one. |
    | `readings` | The readings of the edges from sources without an exchange. |
    """

    physical: PhysicalPlan
    channels: Mapping[str, int]
    homes: Mapping[str, int]
    ends: Collection[str]
    exchanges: Mapping[Edge, Exchange]
    readings: Mapping[Edge, Reading]


def lower(graph: Graph, nodes: Sequence[Step], schemas: Mapping[str, pa.Schema], shape: Shape) -> Lowered:
    """The pipelines of a graph. `nodes` are the graph's, in order; `shape` has the feed of the sources that it
    names.
    """
    return _Lowering(graph, nodes, schemas, shape).lowered()


class _Lowering:
    def __init__(self, graph: Graph, nodes: Sequence[Step], schemas: Mapping[str, pa.Schema], shape: Shape) -> None:
        self._graph = graph
        self._nodes = nodes
        self._schemas = schemas
        self._shape = shape
        self._by_name = {node.name: node for node in nodes}
        self._edges = {node.name: tuple(edges_of(node)) for node in nodes}
        readers: dict[str, list[Edge]] = {node.name: [] for node in nodes}
        for edges in self._edges.values():
            for edge in edges:
                readers[edge.source].append(edge)
        self._channels = channels_of(nodes, readers)
        self._read = frozenset(edge for edges in self._edges.values() for edge in edges if self._reads_files(edge))
        self._readers = {name: [edge for edge in edges if edge not in self._read] for name, edges in readers.items()}
        self._strides = strides_of(nodes)
        self._datasets = {node.name: node for node in nodes if isinstance(node, DatasetSource)}
        self._exchanges: dict[Edge, Exchange] = {}
        self._readings = dict.fromkeys(self._read, Reading.FILES)
        self._trees: dict[str, PhysicalNode] = {}
        self._depths: dict[str, int] = {}

    def lowered(self) -> Lowered:
        for node in self._nodes:
            inputs = tuple(self._input(edge) for edge in self._edges[node.name] if edge not in self._read)
            self._trees[node.name] = self._tree(node, inputs)
        return self._cut()

    def _cut(self) -> Lowered:
        pipelines: list[Pipeline] = []
        homes: dict[str, int] = {}
        ends: list[str] = []
        for node in self._nodes:
            into = tuple(self._exchanges[edge] for edge in self._readers[node.name] if edge in self._exchanges)
            if into or node.name == self._graph.result:
                root = self._trees[node.name]
                ends.append(node.name)
                homes = dict.fromkeys(self._beside(node.name), len(pipelines)) | homes
                scans = (leaf.source for reader in walk(root) for leaf in read_from_sources(reader))
                pipelines.append(
                    Pipeline(
                        root=root,
                        sources=tuple(dict.fromkeys(scans)),
                        start=Start.SEAL,
                        channels=self._channels[node.name],
                        into=into,
                    )
                )
        physical = PhysicalPlan(pipelines=tuple(pipelines), kept=())
        return Lowered(
            physical=physical,
            channels={name: pipelines[home].channels for name, home in homes.items()},
            homes=homes,
            ends=ends,
            exchanges=self._exchanges,
            readings=self._readings,
        )

    def _beside(self, name: str) -> Iterator[str]:
        """The node, and the nodes that run in its pipeline."""
        stack = [name]
        while stack:
            name = stack.pop()
            yield name
            stack.extend(edge.source for edge in self._edges[name] if edge not in self._exchanges)

    # -------------------------------------------------------------------------------------------------- edges

    def _input(self, edge: Edge) -> PhysicalNode:
        """The origin of an edge's rows: the Dataset, the operator that makes them, or an exchange."""
        reading = self._reading(edge)
        if reading is not None:
            self._readings[edge] = reading
            return self._scan(edge.source, reading)
        if self._direct(edge):
            self._depths[edge.reader] = max(self._depths.get(edge.reader, 0), self._depths.get(edge.source, 0) + 1)
            return self._trees[edge.source]
        exchange = self._exchanges[edge] = self._exchange(edge)
        return ReceiveNode(
            exchange=exchange.number,
            schema=exchange.schema,
            size_class=self._trees[edge.source].size_class,
            rows=self._trees[edge.source].size_class,
            plan_path=f"{edge.reader}.{edge.stream}",
        )

    def _reading(self, edge: Edge) -> Reading | None:
        """The way in which the reader reads a Dataset itself; None if it cannot."""
        node, channels = self._datasets.get(edge.source), self._channels[edge.reader]
        if node is None:
            return None
        keyed = node.dataset.keyed if isinstance(node.dataset, KeyedDataset) else None
        as_it_lies = ByKey(tuple(keyed.columns)) if isinstance(keyed, Hashed) and keyed.partitions == channels else None
        match edge.partition:
            case Spread():
                return Reading.SHARE
            case Broadcast():
                return Reading.WHOLE
            case _ if channels == 1:
                return Reading.WHOLE
            case ByKey() if edge.partition == as_it_lies:
                return Reading.PARTITION
            case _:
                return None

    def _reads_files(self, edge: Edge) -> bool:
        """Tests whether a statement reads its source itself: all of it, or the channel's share."""
        known, reader = self._shape.get(edge.source), self._by_name[edge.reader]
        if not isinstance(reader, SqlStep) or known is None or known.feed is not Feed.FILES:
            return False
        if reader.growth and not (known.narrow and reader.growth <= _LITTLE_GROWTH):
            return False  # DuckDB would compute 2,048 rows at once
        return self._channels[edge.reader] == 1 or isinstance(edge.partition, Spread | Broadcast)

    def _size(self, name: str) -> int:
        """The size class of a source's rows."""
        return self._shape[name].size_class if name in self._shape else _UNKNOWN

    def _direct(self, edge: Edge) -> bool:
        channels = self._channels[edge.source]
        if isinstance(self._by_name[edge.reader], MergeStep):
            return False
        return (
            len(self._readers[edge.source]) == 1
            and channels == self._channels[edge.reader]
            and (channels == 1 or isinstance(edge.partition, Spread))
            and self._depths.get(edge.source, 0) < _DEEPEST
        )

    def _exchange(self, edge: Edge) -> Exchange:
        schema, consumers = self._schemas[edge.source], self._channels[edge.reader]
        partition = edge.partition if consumers > 1 else Spread()
        routing, keys, choose = Routing.ROUND_ROBIN, (), None
        reader = self._by_name[edge.reader]
        order = reader.order if isinstance(reader, MergeStep) else ()
        match partition:
            case Spread() if order:
                routing = Routing.GATHER
            case Spread():
                if consumers == self._channels[edge.source]:
                    routing = Routing.FORWARD
            case Broadcast():
                routing = Routing.BROADCAST
            case ByKey():
                routing = Routing.HASH
                keys = tuple(schema.names.index(column) for column in partition.columns)
            case ByFunction():
                routing, choose = Routing.FUNCTION, partition.choose
            case _:
                assert_never(partition)
        number = len(self._exchanges) + 1
        return Exchange(
            number=number,
            routing=routing,
            schema=schema,
            consumers=consumers,
            keys=keys,
            order=order,
            choose=choose,
            plan_path=edge.reader,
        )

    # -------------------------------------------------------------------------------------------------- nodes

    def _scan(self, name: str, reading: Reading = Reading.SHARE) -> ScanNode:
        schema = self._schemas[name]
        return ScanNode(
            source=name,
            columns=columns_of(schema),
            schema=schema,
            size_class=self._size(name),
            plan_path=name,
            whole=reading is Reading.WHOLE,
            parted=reading is Reading.PARTITION,
        )

    def _tree(self, node: Step, inputs: tuple[PhysicalNode, ...]) -> PhysicalNode:
        name, schema = node.name, self._schemas[node.name]
        size = max((child.size_class for child in inputs), default=0)
        match node:
            case FedSource() | FileSource() | DatasetSource():
                return self._scan(name)
            case IterableSource():
                return IterateNode(source=node, schema=schema, size_class=_UNKNOWN, plan_path=name)
            case MapNode():
                return BatchFunctionNode(
                    input=inputs[0],
                    function=node.function,
                    stride=self._strides[name],
                    schema=schema,
                    size_class=_UNKNOWN,
                    plan_path=name,
                )
            case UnionNode():
                return PhysicalUnion(inputs=inputs, schema=schema, size_class=size, plan_path=name)
            case ExecutorNode():
                return UserNode(
                    name=name,
                    inputs=inputs,
                    streams=user_streams(node, self._strides),
                    make=node.make,
                    schema=schema,
                    size_class=_UNKNOWN,
                    plan_path=name,
                )
            case SqlStep():
                return self._fragment(node, inputs)
            case MergeStep():
                return inputs[0]
            case _:
                assert_never(node)

    def _fragment(self, step: SqlStep, inputs: tuple[PhysicalNode, ...]) -> FragmentNode:
        """The fragment of a statement. `inputs` are the nodes that it does not read from files itself."""
        left = iter(inputs)
        files: list[FileInput] = []
        streams: list[StreamInput] = []
        for edge in self._edges[step.name]:
            named = relation(edge.at)
            if edge in self._read:
                columns, whole = columns_of(self._schemas[edge.source]), isinstance(edge.partition, Broadcast)
                file = FileInput(source=edge.source, relation=named, columns=columns, plan_path=step.name, whole=whole)
                files.append(file)
            else:
                node, replayed = next(left), step.replayed[edge.at]
                streams.append(StreamInput(node=node, relation=named, replayed=replayed, growth=step.growth))
        sizes = [self._size(file.source) for file in files] + [stream.node.size_class for stream in streams]
        ordered = None if step.ordered is None else OrderedSql(sql=step.ordered, joins=(f"node {step.name!r}",))
        return FragmentNode(
            sql=step.sql,
            streams=tuple(streams),
            files=tuple(files),
            context=(),
            schema=step.schema,
            size_class=max(sizes, default=0),
            row_wise=False,
            plan_path=step.name,
            relations=1,
            ordered=ordered,
            collects=step.collects,
        )


def user_streams(node: ExecutorNode, strides: Mapping[str, int]) -> tuple[UserStream, ...]:
    """A node's streams as its operator reads them; `strides` are those of the nodes that it reads."""
    return tuple(
        UserStream(name=stream.name, after=stream.after, stride=strides.get(stream.source, STRIDE))
        for stream in node.inputs
    )


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    return tuple(Column(name=field.name, type=field.type, nullable=field.nullable) for field in schema)

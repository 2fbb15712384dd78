"""The edges between the nodes of a graph, and each node's batches and channels, which follow from the edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from ...proto.graph import (
    STRIDE,
    Broadcast,
    DatasetSource,
    ExecutorNode,
    FedSource,
    FileSource,
    IterableSource,
    MapNode,
    Partition,
    Spread,
    UnionNode,
)
from .steps import MergeStep, SqlStep, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The rows of `source` that `reader` reads as its input number `at`."""

    source: str
    reader: str
    at: int
    stream: str
    partition: Partition


def edges_of(node: Step) -> Iterator[Edge]:
    """The edges into a node, in order."""
    match node:
        case ExecutorNode() | SqlStep():
            for at, stream in enumerate(node.inputs):
                yield Edge(
                    source=stream.source, reader=node.name, at=at, stream=stream.name, partition=stream.partition
                )
        case MapNode() | MergeStep():
            yield Edge(source=node.source, reader=node.name, at=0, stream=node.source, partition=Spread())
        case UnionNode():
            for at, source in enumerate(node.sources):
                yield Edge(source=source, reader=node.name, at=at, stream=source, partition=Spread())
        case _:
            return


def strides_of(nodes: Sequence[Step]) -> Mapping[str, int]:
    """The rows of each node's batches.

    | Node | Rows |
    |---|---|
    | a source | the number that the source sets |
    | a function | the number of its input |
    | a union | the smallest number among its inputs |
    | an executor, a statement, a merge | `STRIDE` |
    """
    strides: dict[str, int] = {}
    for node in nodes:
        match node:
            case MapNode():
                strides[node.name] = strides[node.source]
            case UnionNode():
                strides[node.name] = min(strides[source] for source in node.sources)
            case ExecutorNode() | SqlStep() | MergeStep():
                strides[node.name] = STRIDE
            case _:
                strides[node.name] = node.stride
    return strides


def channels_of(nodes: Sequence[Step], readers: Mapping[str, Sequence[Edge]]) -> Mapping[str, int]:
    """The number of channels of each node.

    | Node | Channels |
    |---|---|
    | an executor, a statement | the number that the node sets |
    | a merge, an iterable | one |
    | a source that is read in pieces | the largest number among its readers without a broadcast, at least one |
    | a function | the number of its input |
    | a union | the largest number among its inputs |
    """
    wanted: dict[str, int] = {}
    executors = {node.name: node.channels for node in nodes if isinstance(node, ExecutorNode | SqlStep)}
    for node in reversed(nodes):
        reading = [
            executors.get(edge.reader, wanted.get(edge.reader, 1))
            for edge in readers[node.name]
            if not isinstance(edge.partition, Broadcast)
        ]
        wanted[node.name] = max(reading, default=1)
    channels: dict[str, int] = {}
    for node in nodes:
        match node:
            case ExecutorNode() | SqlStep():
                channels[node.name] = node.channels
            case IterableSource() | MergeStep():
                channels[node.name] = 1
            case MapNode():
                channels[node.name] = channels[node.source]
            case UnionNode():
                channels[node.name] = max(channels[source] for source in node.sources)
            case FedSource() | FileSource() | DatasetSource():
                channels[node.name] = wanted[node.name]
            case _:
                assert_never(node)
    return channels

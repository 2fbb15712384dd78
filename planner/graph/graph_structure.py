"""Checks a graph before any columns are known, and orders its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import pyarrow as pa

from ...proto.encoding.number_ranges import MOST_LOCAL_CHANNELS
from ...proto.errors import PlanError, Problem
from ...proto.graph import (
    Aggregate,
    ExecutorNode,
    FedSource,
    FileSource,
    Graph,
    GraphNode,
    IterableSource,
    MapNode,
    SqlNode,
    StockNode,
    UnionNode,
    read_by,
)


def ordered(graph: Graph) -> tuple[GraphNode, ...]:
    """The nodes, each after the nodes that it reads. Raises `PlanError` with everything that is wrong with the
    edges.
    """
    problems = [*_names(graph), *_references(graph)]
    for node in graph.nodes:
        problems += _of_node(node)
    if not problems:
        problems += [*_circle(graph), *_ends(graph)]
    if problems:
        raise PlanError(*problems)
    by_name = {node.name: node for node in graph.nodes}
    return tuple(by_name[name] for name in TopologicalSorter(_edges(graph)).static_order())


def problem(node: str, reason: str, message: str) -> Problem:
    """A problem of a node."""
    return Problem(place=f"node {node!r}", reason=reason, message=message)


def _edges(graph: Graph) -> Mapping[str, Sequence[str]]:
    return {node.name: read_by(node) for node in graph.nodes}


def _names(graph: Graph) -> Iterator[Problem]:
    seen: set[str] = set()
    for node in graph.nodes:
        if node.name in seen:
            yield problem(node.name, "DUPLICATE_NAME", "two nodes have this name: give each node another name")
        seen.add(node.name)


def _references(graph: Graph) -> Iterator[Problem]:
    known = {node.name for node in graph.nodes}
    for node in graph.nodes:
        for source in read_by(node):
            if source not in known:
                there = ", ".join(sorted(known - {node.name})) or "none"
                yield problem(
                    node.name,
                    "UNKNOWN_NODE",
                    f"the node reads {source!r}, and there is no node {source!r}; there are: {there}",
                )


def _of_node(node: GraphNode) -> Iterator[Problem]:
    yield from _of_schema(node)
    match node:
        case ExecutorNode():
            yield from _of_executor(node)
        case SqlNode():
            yield from _of_streams(node)
        case StockNode():
            yield from _of_streams(node)
            if isinstance(node.operation, Aggregate) and not node.operation.keys and node.channels != 1:
                text = f"channels={node.channels}: without a column to group by, one channel makes one row"
                yield problem(node.name, "BAD_CHANNELS", text)
        case UnionNode(sources=()):
            yield problem(node.name, "NO_STREAMS", "a union needs at least one stream")
        case UnionNode():
            return
        case MapNode():
            if not callable(node.function):
                yield problem(
                    node.name, "NOT_A_FUNCTION", f"{node.function!r} is not a function: give a function of a batch"
                )
        case _:
            if not _is_positive(node.stride):
                yield problem(
                    node.name, "BAD_STRIDE", f"stride={node.stride!r} must be a whole number of rows, at least 1"
                )
            if isinstance(node, IterableSource) and node.epoch_rows is not None and not _is_positive(node.epoch_rows):
                text = f"epoch_rows={node.epoch_rows!r} must be a whole number of rows, at least 1"
                yield problem(node.name, "BAD_STRIDE", text)


def _of_schema(node: GraphNode) -> Iterator[Problem]:
    """The problems of the columns that a node's code declares."""
    match node:
        case FedSource() | IterableSource():
            needed = True
        case FileSource() | MapNode() | ExecutorNode():
            needed = False
        case _:
            return
    if not isinstance(node.schema, pa.Schema) and (needed or node.schema is not None):
        yield problem(node.name, "NO_SCHEMA", f"its schema must be a pyarrow.Schema, not {type(node.schema).__name__}")


def _is_positive(value: object, most: int | None = None) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value >= 1 and (most is None or value <= most)


def _of_streams(node: ExecutorNode | SqlNode | StockNode) -> Iterator[Problem]:
    if not _is_positive(node.channels, MOST_LOCAL_CHANNELS):
        text = f"channels={node.channels!r} must be a whole number from 1 to {MOST_LOCAL_CHANNELS}"
        yield problem(node.name, "BAD_CHANNELS", text)
    if not node.inputs:
        yield problem(node.name, "NO_STREAMS", "the node reads nothing: give at least one stream")
    names = [stream.name for stream in node.inputs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield problem(node.name, "DUPLICATE_NAME", f"two of its streams are called {name!r}")


def _of_executor(node: ExecutorNode) -> Iterator[Problem]:
    yield from _of_streams(node)
    if not callable(node.make):
        is_executor = hasattr(node.make, "execute")
        right = (
            "give its class, or a function that makes an executor, because every channel and epoch needs another "
            "executor"
        )
        what = "is an executor itself" if is_executor else "cannot make executors"
        yield problem(node.name, "NOT_A_FACTORY", f"{node.make!r} {what}; {right}")
    names = [stream.name for stream in node.inputs]
    for stream in node.inputs:
        for other in stream.after:
            if other not in names:
                there = ", ".join(names)
                text = (
                    f"stream {stream.name!r} comes after {other!r}, and there is no stream {other!r}; there are: "
                    f"{there}"
                )
                yield problem(node.name, "UNKNOWN_STREAM", text)
    circle = _first_circle({stream.name: stream.after for stream in node.inputs})
    if circle:
        text = f"its streams wait for each other ({' after '.join(circle)}), so none could be read"
        yield problem(node.name, "CIRCLE", text)


def _circle(graph: Graph) -> Iterator[Problem]:
    circle = _first_circle(_edges(graph))
    if circle:
        route = " reads ".join(map(repr, circle))
        yield problem(circle[0], "CIRCLE", f"{route}: a graph cannot have circles; run a loop as one graph a round")


def _first_circle(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Names of which each reads the next one, the first and the last the same; empty if there is no circle."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    return ()


def _ends(graph: Graph) -> Iterator[Problem]:
    names = [node.name for node in graph.nodes]
    if graph.result is None:
        yield Problem(
            place="graph",
            reason="NO_RESULT",
            message="the graph has no result: end the graph with blocking(...) or collect(stream)",
        )
        return
    if graph.result not in names:
        there = ", ".join(names) or "none"
        text = f"there is no node {graph.result!r} for the graph's result; there are: {there}"
        yield Problem(place="graph", reason="UNKNOWN_NODE", message=text)
        return
    read = {source for node in graph.nodes for source in read_by(node)}
    for name in names:
        if name not in read and name != graph.result:
            yield problem(name, "UNREAD", "nothing reads this node, and the node is not the result: leave the node out")
    if graph.result in read:
        yield problem(
            graph.result,
            "RESULT_READ",
            "the node is the graph's result, and other nodes read its rows: end the graph in another node",
        )
